#include "ding_worker/policy/device/device_network.h"

#include <utility>

namespace ding {

void UpdateTarget(const TargetUpdate& update, int64_t train_iter, Network* online,
                  Network* target) {
  if (update.freq > 0 && train_iter % update.freq != 0) return;
  DeviceNetwork* const device = AsDevice(target);
  const float theta = update.freq > 0 ? 1 : static_cast<float>(update.theta);
  if (device != nullptr && device->Approach(online, theta)) return;
  UpdateTarget(update, train_iter, std::as_const(*online).parameters(), target->parameters());
}

}  // namespace ding
