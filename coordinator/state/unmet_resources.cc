#include "ding_worker/coordinator/state/unmet_resources.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace internal_coordinator {
namespace {

// Returns a sentence for each resource of which the worker has less than a task needs.
std::vector<std::string> Lacks(absl::string_view role, const Resources& has,
                               const Resources& needed) {
  std::vector<std::string> lacks;
  const auto compare = [&](absl::string_view field, auto present, auto wanted) {
    if (present >= wanted) return;
    lacks.push_back(absl::StrCat("policy.other.commander.", role, "_resources.", field, " is ",
                                 wanted, ", and it has ", present));
  };
  compare("cpus", has.cpus(), needed.cpus());
  compare("memory_bytes", has.memory_bytes(), needed.memory_bytes());
  compare("gpus", has.gpus(), needed.gpus());
  return lacks;
}

}  // namespace

std::optional<std::string> FindUnmet(Hello::Role role, const std::string& task_id,
                                     const Resources& needed, const WorkerRoster& workers) {
  const std::string role_name(RoleName(role));
  const Worker* largest = nullptr;
  std::vector<std::string> lacks;
  for (const auto& [id, worker] : workers) {
    if (worker.hello.role() != role || worker.draining) continue;
    const Resources& has = worker.hello.resources();
    std::vector<std::string> missing = Lacks(role_name, has, needed);
    if (missing.empty()) return std::nullopt;
    const bool is_larger =
        largest == nullptr || missing.size() < lacks.size() ||
        (missing.size() == lacks.size() && has.cpus() > largest->hello.resources().cpus());
    if (!is_larger) continue;
    largest = &worker;
    lacks = std::move(missing);
  }
  if (largest == nullptr) return std::nullopt;
  return absl::StrCat(
      "no ", role_name, " that has joined has what ", task_id, " needs; the largest one is ",
      largest->hello.name(), ": ", absl::StrJoin(lacks, "; "), ". Start a larger ", role_name,
      needed.gpus() > largest->hello.resources().gpus() ? " (--gpus=N says how many GPUs it has)"
                                                        : "",
      ", or lower the field");
}

}  // namespace internal_coordinator
}  // namespace ding
