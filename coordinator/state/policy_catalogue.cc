#include "ding_worker/coordinator/state/policy_catalogue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/log.h"
#include "ding_worker/interaction/control/message_checks.h"

namespace ding {
namespace {

// Versions of a policy are numbered one after the other. A learner that takes the place of another one skips some
// numbers, at most so many.
constexpr uint64_t kMaxSkippedVersions = 1000;
constexpr size_t kKeptVersions = 2;

}  // namespace

const PolicyCatalogue::History* PolicyCatalogue::Find(const std::string& policy_id) const {
  const auto found = policies_.find(policy_id);
  return found == policies_.end() ? nullptr : &found->second;
}

uint64_t PolicyCatalogue::Newest(const std::string& policy_id) const {
  const History* const history = Find(policy_id);
  return history == nullptr ? 0 : history->newest;
}

int64_t PolicyCatalogue::NewestIter(const std::string& policy_id) const {
  const History* const history = Find(policy_id);
  return history == nullptr ? 0 : history->newest_iter;
}

const PolicyVersion* PolicyCatalogue::NewestStored(const std::string& policy_id) const {
  const History* const history = Find(policy_id);
  return history == nullptr || history->stored.empty() ? nullptr : &history->stored.back();
}

const PolicyVersion* PolicyCatalogue::FindStored(const std::string& policy_id,
                                                 uint64_t version) const {
  const History* const history = Find(policy_id);
  if (history == nullptr) return nullptr;
  const auto found =
      std::find_if(history->stored.begin(), history->stored.end(),
                   [version](const PolicyVersion& stored) { return stored.version() == version; });
  return found == history->stored.end() ? nullptr : &*found;
}

std::vector<std::string> PolicyCatalogue::StoredKeys() const {
  std::vector<std::string> keys;
  for (const auto& [policy_id, history] : policies_) {
    for (const PolicyVersion& version : history.stored) keys.push_back(version.key());
  }
  return keys;
}

uint64_t PolicyCatalogue::Begin(const std::string& policy_id) {
  History& history = policies_[policy_id];
  history.finished = false;
  return history.newest + 1;
}

void PolicyCatalogue::Finish(const std::string& policy_id) { policies_[policy_id].finished = true; }

void PolicyCatalogue::FinishAll() {
  for (auto& [policy_id, history] : policies_) history.finished = true;
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
  History& history = policies_[version.policy_id()];
  history.newest_iter = std::max(history.newest_iter, version.train_iter());
  history.newest = version.version();
  history.stored.push_back(version);
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
  for (auto& [policy_id, history] : policies_) {
    if (!history.finished || history.stored.empty() || is_played(policy_id)) continue;
    Drop(/*keep_newest=*/0, is_kept, &history, &keys);
  }
  return keys;
}

void PolicyCatalogue::Drop(size_t keep_newest, IsKept is_kept, History* history,
                           std::vector<std::string>* keys) {
  const size_t droppable = history->stored.size() - std::min(keep_newest, history->stored.size());
  std::deque<PolicyVersion> left;
  for (size_t i = 0; i < history->stored.size(); ++i) {
    PolicyVersion& version = history->stored[i];
    if (i < droppable && !is_kept(version)) {
      keys->push_back(version.key());
    } else {
      left.push_back(std::move(version));
    }
  }
  history->stored = std::move(left);
}

void PolicyCatalogue::Save(StateRecord* state) const {
  state->set_policy_version(last_published_);
  for (const auto& [policy_id, history] : policies_) {
    PolicyRecord* const policy = state->add_policy();
    policy->set_policy_id(policy_id);
    policy->set_newest(history.newest);
    policy->set_newest_iter(history.newest_iter);
    policy->set_finished(history.finished);
    for (const PolicyVersion& version : history.stored) *policy->add_stored() = version;
  }
}

void PolicyCatalogue::Load(const StateRecord& state,
                           const std::unordered_set<std::string>* present) {
  last_published_ = state.policy_version();
  for (const PolicyRecord& known : state.policy()) {
    History& history = policies_[known.policy_id()];
    history.newest = known.newest();
    history.newest_iter = known.newest_iter();
    history.finished = known.finished();
    for (const PolicyVersion& version : known.stored()) {
      if (present == nullptr || present->count(version.key()) > 0) {
        history.stored.push_back(version);
      }
    }
    DING_LOG_IF(WARNING, history.stored.empty() && known.stored_size() > 0)
        << known.policy_id() << " is gone from the store: collectors wait for the next version";
  }
}

}  // namespace ding
