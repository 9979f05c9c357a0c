#include "ding_worker/collector/cache_pool.h"

namespace ding {

int CachePool::FirstHeld() const {
  for (int env_id = 0; env_id < env_num(); ++env_id) {
    if (Holds(env_id)) return env_id;
  }
  return static_cast<int>(kEmpty);
}

}  // namespace ding
