// The versions of each policy: which ones were published, and which ones are still stored.
//
//     CheckNext ──► Publish ──► stored ──DropOld, DropFinished──► keys to delete
//                                          the two newest versions and kept versions stay
//
// A policy is finished when its learner's task is over, until another task trains it again.
//
// Ownership: a value of the coordinator. It deletes nothing: it returns the keys to delete.
// Threads:   thread-compatible.
// Errors: only CheckNext() returns an error, and it changes nothing.
#ifndef DING_WORKER_COORDINATOR_STATE_POLICY_CATALOGUE_H_
#define DING_WORKER_COORDINATOR_STATE_POLICY_CATALOGUE_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class PolicyCatalogue {
 public:
  // Returns whether a version is needed although there are newer ones.
  using IsKept = absl::FunctionRef<bool(const PolicyVersion& version)>;
  // Returns whether a task acts by the newest version of a policy.
  using IsPlayed = absl::FunctionRef<bool(const std::string& policy_id)>;

  // The number of the last version of any policy.
  uint64_t last_published() const { return last_published_; }
  // These two return 0 for a policy without a version.
  uint64_t Newest(const std::string& policy_id) const { return Find(policy_id).newest(); }
  // The highest train iteration of its versions. Collectors cannot act by a newer one.
  int64_t NewestIter(const std::string& policy_id) const { return Find(policy_id).newest_iter(); }
  // Null if no version of the policy is stored. Valid until the next change.
  const PolicyVersion* NewestStored(const std::string& policy_id) const;
  // Null if that version is not stored. Valid until the next change.
  const PolicyVersion* FindStored(const std::string& policy_id, uint64_t version) const;
  std::vector<std::string> StoredKeys() const;

  // Notes that a task begins to train the policy. Returns the number of the first version that the
  // task will publish.
  uint64_t Begin(const std::string& policy_id);
  // Notes that the task that trained the policy is over.
  void Finish(const std::string& policy_id) { policies_[policy_id].set_finished(true); }
  void FinishAll() {
    for (auto& [policy_id, policy] : policies_) policy.set_finished(true);
  }

  // Checks a version that a learner wants to publish.
  //   kInvalidArgument  its number is not above the last number, or is far above it; or its key is
  //                     not `key`
  absl::Status CheckNext(const PolicyVersion& version, const std::string& key) const;
  void Publish(const PolicyVersion& version);

  // Forgets the versions that are neither among the two newest nor kept. Returns their keys.
  std::vector<std::string> DropOld(const std::string& policy_id, IsKept is_kept);
  // Forgets all versions of finished policies, except for policies that a task plays and versions
  // that are kept. Returns their keys.
  std::vector<std::string> DropFinished(IsPlayed is_played, IsKept is_kept);

  // For the journal.
  void Save(StateRecord* state) const;
  // Continues from the record of Save(). `present` are the keys that the store still has. Null: the
  // store cannot list its keys, and has all of them.
  void Load(const StateRecord& state, const std::unordered_set<std::string>* present);

 private:
  static void Drop(int keep_newest, IsKept is_kept, PolicyRecord* policy,
                   std::vector<std::string>* keys);
  // Returns an empty record for a policy without a version.
  const PolicyRecord& Find(const std::string& policy_id) const;

  uint64_t last_published_ = 0;
  std::map<std::string, PolicyRecord> policies_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_POLICY_CATALOGUE_H_
