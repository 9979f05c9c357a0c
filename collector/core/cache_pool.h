// Maps each env to the row of its current step. The entry is set when the policy gets the observation
// and removed when the env has answered, so that an env manager may answer later or for some envs only.
//
// Ownership: a value; TrajBuffer owns the rows.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_CORE_CACHE_POOL_H_
#define DING_WORKER_COLLECTOR_CORE_CACHE_POOL_H_

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

  // Returns the row of the env, or kEmpty.
  int64_t row(int env_id) const { return rows_[env_id]; }
  // Whether `env_id` is a valid env that has a row.
  bool Holds(int env_id) const {
    return env_id >= 0 && env_id < env_num() && row(env_id) != kEmpty;
  }

 private:
  std::vector<int64_t> rows_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_CACHE_POOL_H_
