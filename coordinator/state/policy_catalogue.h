// The versions of each policy that the run has published, and those of them that are still stored.
//
//     CheckNext ──► Publish ──► stored ──DropOld, DropFinished──► keys that are to be deleted
//                                          the two newest versions stay, and those that are kept
//
// A policy is finished when its learner's task is over, until another task trains it again.
//
// Ownership: a value of the coordinator. It deletes nothing: it returns the keys to delete.
// Threads:   thread-compatible: the caller holds the coordinator's lock.
// Errors:    CheckNext() alone returns one, and changes nothing.
#ifndef DING_WORKER_COORDINATOR_STATE_POLICY_CATALOGUE_H_
#define DING_WORKER_COORDINATOR_STATE_POLICY_CATALOGUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
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
  // Whether a version is needed though there are newer ones.
  using IsKept = absl::FunctionRef<bool(const PolicyVersion& version)>;
  // Whether a task plays by the newest version of a policy.
  using IsPlayed = absl::FunctionRef<bool(const std::string& policy_id)>;

  // The number of the last version of any policy.
  uint64_t last_published() const { return last_published_; }
  // These three return 0 for a policy without a version.
  uint64_t Newest(const std::string& policy_id) const;
  // The highest train iteration of its versions: collectors act by none that is newer.
  int64_t NewestIter(const std::string& policy_id) const;
  // Null if no version of it is stored. Valid until the next change.
  const PolicyVersion* NewestStored(const std::string& policy_id) const;
  // Null if that version is not stored. Valid until the next change.
  const PolicyVersion* FindStored(const std::string& policy_id, uint64_t version) const;
  std::vector<std::string> StoredKeys() const;

  // A task begins to train the policy. Returns the number of the first version that it publishes.
  uint64_t Begin(const std::string& policy_id);
  // The task that trained the policy is over.
  void Finish(const std::string& policy_id);
  void FinishAll();

  //   kInvalidArgument  the number is not the next one, or far beyond it; the key is not `key`
  absl::Status CheckNext(const PolicyVersion& version, const std::string& key) const;
  void Publish(const PolicyVersion& version);

  // Forgets the versions that are neither among the two newest nor kept. Returns their keys.
  std::vector<std::string> DropOld(const std::string& policy_id, IsKept is_kept);
  // Forgets all versions of finished policies that nobody plays, but for those that are kept.
  // Returns their keys.
  std::vector<std::string> DropFinished(IsPlayed is_played, IsKept is_kept);

  // For the journal.
  void Save(StateRecord* state) const;
  // Goes on with what Save() wrote. `present`: the keys that the store still holds; null if the
  // store cannot tell, and is taken to be complete.
  void Load(const StateRecord& state, const std::unordered_set<std::string>* present);

 private:
  struct History {
    uint64_t newest = 0;
    int64_t newest_iter = 0;
    std::deque<PolicyVersion> stored;  // oldest first
    bool finished = false;
  };

  static void Drop(size_t keep_newest, IsKept is_kept, History* history,
                   std::vector<std::string>* keys);
  const History* Find(const std::string& policy_id) const;

  uint64_t last_published_ = 0;
  std::map<std::string, History> policies_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_POLICY_CATALOGUE_H_
