#include "ding_worker/interaction/grpc/victim_chooser.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace ding {
namespace {

// The address that most of `candidates` have.
std::string MostFrequentAddress(const std::vector<VictimChooser::Candidate>& candidates) {
  std::unordered_map<std::string, int64_t> counts;
  for (const VictimChooser::Candidate& each : candidates) ++counts[std::string(each.address)];
  const auto most = std::max_element(
      counts.begin(), counts.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  return most->first;
}

}  // namespace

size_t VictimChooser::Choose(const std::vector<Candidate>& candidates) {
  const std::string address = MostFrequentAddress(candidates);
  std::vector<size_t> spoke;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].address != address) continue;
    if (candidates[i].silent) return i;
    spoke.push_back(i);
  }
  return spoke[static_cast<size_t>(victims_.UniformInt(spoke.size()))];
}

}  // namespace ding
