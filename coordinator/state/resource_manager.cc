#include "ding_worker/coordinator/state/resource_manager.h"

namespace ding {
namespace {

bool Satisfies(const Resources& have, const Resources& needed) {
  return have.cpus() >= needed.cpus() && have.memory_bytes() >= needed.memory_bytes() &&
         have.gpus() >= needed.gpus();
}

}  // namespace

void NaiveResourceManager::Update(Hello::Role role, uint32_t worker, const Resources& resources) {
  MutexLock lock(&mutex_);
  workers_[{role, worker}] = Entry{resources, updates_++};
}

std::optional<AssignedWorker> NaiveResourceManager::Assign(Hello::Role role,
                                                           const Resources& needed,
                                                           std::optional<uint32_t> except) {
  MutexLock lock(&mutex_);
  auto best = workers_.end();
  for (auto it = workers_.begin(); it != workers_.end(); ++it) {
    const Entry& entry = it->second;
    if (it->first.first != role || !entry.free_since.has_value()) continue;
    if (except == it->first.second) continue;
    if (!Satisfies(entry.resources, needed)) continue;
    if (best != workers_.end()) {
      const Entry& other = best->second;
      if (entry.resources.cpus() < other.resources.cpus()) continue;
      if (entry.resources.cpus() == other.resources.cpus() &&
          *entry.free_since > *other.free_since) {
        continue;
      }
    }
    best = it;
  }
  if (best == workers_.end()) return std::nullopt;
  best->second.free_since.reset();
  return AssignedWorker{best->first.second, best->second.resources};
}

bool NaiveResourceManager::HaveAssigned(Hello::Role role, uint32_t worker) const {
  MutexLock lock(&mutex_);
  const auto it = workers_.find({role, worker});
  return it != workers_.end() && !it->second.free_since.has_value();
}

bool NaiveResourceManager::Delete(Hello::Role role, uint32_t worker) {
  MutexLock lock(&mutex_);
  return workers_.erase({role, worker}) > 0;
}

}  // namespace ding
