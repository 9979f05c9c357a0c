// Keeps one value for each env, such as the row that waits for the answer of the env. The envs of a
// manager may be ready and answer at different times: a value is replaced or removed for one env,
// and the values of the others stay.
//
// Ownership: owns its values. Values that share memory (tensors) keep sharing it, unless `deepcopy`
// is set.
// Threads:   thread-compatible.
// Errors:    Update() and Reset() of an env that does not exist end the program, with the name of
//            the pool: the caller has a bug.
//
// Example:
//   CachePool<int64_t> rows("rows", env_num);
//   rows.Update(env_id, row);
//   if (const int64_t* const row = rows.Get(env_id)) Store(*row);
//   rows.Reset(env_id);
#ifndef DING_WORKER_COLLECTOR_CORE_CACHE_POOL_H_
#define DING_WORKER_COLLECTOR_CORE_CACHE_POOL_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ding_worker/base/check.h"
#include "ding_worker/data/tensor.h"

namespace ding {

template <typename T>
class CachePool {
 public:
  // No env has a value at first. With `deepcopy`, a tensor that is passed is copied, so that its
  // owner may change it.
  CachePool(std::string name, int env_num, bool deepcopy = false)
      : name_(std::move(name)), deepcopy_(deepcopy), values_(static_cast<size_t>(env_num)) {}

  const std::string& name() const { return name_; }
  int env_num() const { return static_cast<int>(values_.size()); }

  // Replaces the value of this env.
  void Update(int env_id, T value) {
    if constexpr (std::is_same_v<T, Tensor>) {
      if (deepcopy_) value = value.Clone();
    }
    Slot(env_id) = std::move(value);
  }
  // Replaces the values of these envs.
  void Update(const std::map<int, T>& values) {
    for (const auto& [env_id, value] : values) Update(env_id, value);
  }
  // Removes the value of this env.
  void Reset(int env_id) { Slot(env_id).reset(); }

  // Returns the value of this env, or null if it has none or does not exist. The pointer is valid
  // until that value changes.
  const T* Get(int env_id) const {
    if (env_id < 0 || env_id >= env_num()) return nullptr;
    const std::optional<T>& value = values_[static_cast<size_t>(env_id)];
    return value.has_value() ? &*value : nullptr;
  }

 private:
  std::optional<T>& Slot(int env_id) {
    DING_CHECK(env_id >= 0 && env_id < env_num())
        << name_ << ": env " << env_id << " is none of the " << env_num() << " envs";
    return values_[static_cast<size_t>(env_id)];
  }

  std::string name_;
  bool deepcopy_;
  std::vector<std::optional<T>> values_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_CACHE_POOL_H_
