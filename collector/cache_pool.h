// Which row each env is acting upon: filled when its observation goes to the policy, empty again
// when the env has answered. It is the per-env view of the rows of the step under way, and lets an
// env manager answer later, or for fewer envs than were asked.
//
// Ownership: a value; the rows belong to TrajBuffer.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_CACHE_POOL_H_
#define DING_WORKER_COLLECTOR_CACHE_POOL_H_

#include <cstdint>
#include <vector>

namespace ding {

class CachePool {
 public:
  static constexpr int64_t kEmpty = -1;

  explicit CachePool(int env_num) : rows_(env_num, kEmpty) {}

  int env_num() const { return static_cast<int>(rows_.size()); }

  void Update(int env_id, int64_t row) { rows_[env_id] = row; }
  void Reset(int env_id) { rows_[env_id] = kEmpty; }

  // The env's row, or kEmpty.
  int64_t row(int env_id) const { return rows_[env_id]; }
  // Whether this is one of the envs, and has a row.
  bool Holds(int env_id) const {
    return env_id >= 0 && env_id < env_num() && row(env_id) != kEmpty;
  }

 private:
  std::vector<int64_t> rows_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CACHE_POOL_H_
