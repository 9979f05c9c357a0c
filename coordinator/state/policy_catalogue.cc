#include "ding_worker/coordinator/state/policy_catalogue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/log.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

// Versions of a policy are numbered one after the other. A learner that takes the place of another
// one skips some numbers, at most so many.
constexpr uint64_t kMaxSkippedVersions = 1000;
constexpr int kKeptVersions = 2;

}  // namespace

const PolicyRecord& PolicyCatalogue::Find(const std::string& policy_id) const {
  const auto found = policies_.find(policy_id);
  return found == policies_.end() ? PolicyRecord::default_instance() : found->second;
}

const PolicyVersion* PolicyCatalogue::NewestStored(const std::string& policy_id) const {
  const auto& stored = Find(policy_id).stored();
  return stored.empty() ? nullptr : &*stored.rbegin();
}

const PolicyVersion* PolicyCatalogue::FindStored(const std::string& policy_id,
                                                 uint64_t version) const {
  for (const PolicyVersion& stored : Find(policy_id).stored()) {
    if (stored.version() == version) return &stored;
  }
  return nullptr;
}

std::vector<std::string> PolicyCatalogue::StoredKeys() const {
  std::vector<std::string> keys;
  for (const auto& [policy_id, policy] : policies_) {
    for (const PolicyVersion& version : policy.stored()) keys.push_back(version.key());
  }
  return keys;
}

uint64_t PolicyCatalogue::Begin(const std::string& policy_id) {
  PolicyRecord& policy = policies_[policy_id];
  policy.set_finished(false);
  return policy.newest() + 1;
}

absl::Status PolicyCatalogue::CheckNext(const PolicyVersion& version,
                                        const std::string& key) const {
  const uint64_t newest = Newest(version.policy_id());
  if (version.version() <= newest || version.version() - newest > kMaxSkippedVersions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version ", version.version(), " of ", version.policy_id(), " after version ", newest,
        ", expected the next one, or at most ", kMaxSkippedVersions, " later"));
  }
  if (version.key() == key) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a policy with key '", ForPeople(version.key()), "', expected '", key, "'"));
}

void PolicyCatalogue::Publish(const PolicyVersion& version) {
  PolicyRecord& policy = policies_[version.policy_id()];
  policy.set_newest_iter(std::max(policy.newest_iter(), version.train_iter()));
  policy.set_newest(version.version());
  *policy.add_stored() = version;
  last_published_ = version.version();
}

std::vector<std::string> PolicyCatalogue::DropOld(const std::string& policy_id, IsKept is_kept) {
  std::vector<std::string> keys;
  const auto found = policies_.find(policy_id);
  if (found != policies_.end()) Drop(kKeptVersions, is_kept, &found->second, &keys);
  return keys;
}

std::vector<std::string> PolicyCatalogue::DropFinished(IsPlayed is_played, IsKept is_kept) {
  std::vector<std::string> keys;
  for (auto& [policy_id, policy] : policies_) {
    if (!policy.finished() || policy.stored().empty() || is_played(policy_id)) continue;
    Drop(/*keep_newest=*/0, is_kept, &policy, &keys);
  }
  return keys;
}

void PolicyCatalogue::Drop(int keep_newest, IsKept is_kept, PolicyRecord* policy,
                           std::vector<std::string>* keys) {
  auto* const stored = policy->mutable_stored();
  const auto newest = stored->end() - std::min(keep_newest, stored->size());
  stored->erase(std::remove_if(stored->begin(), newest,
                               [&](const PolicyVersion& version) {
                                 if (is_kept(version)) return false;
                                 keys->push_back(version.key());
                                 return true;
                               }),
                newest);
}

void PolicyCatalogue::Save(StateRecord* state) const {
  state->set_policy_version(last_published_);
  for (const auto& [policy_id, policy] : policies_) {
    *state->add_policy() = policy;
    state->mutable_policy()->rbegin()->set_policy_id(policy_id);
  }
}

void PolicyCatalogue::Load(const StateRecord& state,
                           const std::unordered_set<std::string>* present) {
  last_published_ = state.policy_version();
  for (const PolicyRecord& known : state.policy()) {
    PolicyRecord& policy = policies_[known.policy_id()];
    policy = known;
    if (present == nullptr) continue;
    const auto is_gone = [present](const PolicyVersion& version) {
      return present->count(version.key()) == 0;
    };
    auto* const stored = policy.mutable_stored();
    stored->erase(std::remove_if(stored->begin(), stored->end(), is_gone), stored->end());
    DING_LOG_IF(WARNING, stored->empty() && known.stored_size() > 0)
        << known.policy_id() << " is gone from the store: collectors wait for the next version";
  }
}

}  // namespace ding
