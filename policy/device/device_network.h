// A network whose parameters and gradients are in the memory of a device (a GPU). Adam and the
// updates of target networks also run on the device, so that training copies neither parameters nor
// gradients to the host.
//
//     host                                                 device
//     parameters()  ◄─ copied when read, back if changed ─►  parameters ◄─ Adam, target update
//     gradients()   ◄─ copied when read, back if changed ─►  gradients  ◄─ Backward()
//
// The spans of parameters() and gradients() are copies on the host. Their addresses stay the same,
// but their values are those at the time of the call. So call these functions again after each pass
// and each step. The next pass or step uses what was written to the spans. If the device is lost,
// the values are NaN, which SaveParameters() refuses.
//
// Threads: thread-compatible, as Network.
#ifndef DING_WORKER_POLICY_DEVICE_DEVICE_NETWORK_H_
#define DING_WORKER_POLICY_DEVICE_DEVICE_NETWORK_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"

namespace ding {

class DeviceNetwork {
 public:
  virtual ~DeviceNetwork() = default;

  // Whether the parameters are on a device. If not, do not call the other functions.
  virtual bool on_device() const = 0;

  // Returns the moments of Adam, on the device, for this network. The network must outlive them.
  virtual absl::StatusOr<std::unique_ptr<DeviceAdam>> MakeAdam() = 0;
  // Waits for the device and returns the Euclidean norm of the gradient.
  virtual absl::StatusOr<double> GradientNorm() = 0;
  // Sets parameters = (1 - theta) parameters + theta (parameters of `online`). Returns false, and
  // does nothing, if `online` is not on the same device. The next pass returns an error of the
  // device.
  virtual bool Approach(Network* online, float theta) = 0;
};

// Returns `network` as a DeviceNetwork, or null if its parameters are on the host.
inline DeviceNetwork* AsDevice(Network* network) {
  auto* const device = dynamic_cast<DeviceNetwork*>(network);
  return device != nullptr && device->on_device() ? device : nullptr;
}

// Updates a target network (policy/optimizer.h), on the device if both networks are there.
void UpdateTarget(const TargetUpdate& update, int64_t train_iter, Network* online, Network* target);

}  // namespace ding

#endif  // DING_WORKER_POLICY_DEVICE_DEVICE_NETWORK_H_
