// Networks whose parameters live in the memory of a device (a GPU), which also takes the steps of
// Adam and moves target networks: an update then copies neither parameters nor gradients.
//
//     host                                                 device
//     parameters()  ◄─ copied when read, back if changed ─►  parameters ◄─ Adam, target update
//     gradients()   ◄─ copied when read, back if changed ─►  gradients  ◄─ Backward()
//
// The spans of parameters() and gradients() keep their addresses, but show the values at the time
// of that call. What is written to them counts from the next pass or step on; so get them anew
// after each pass and each step. Values that the device no longer gives, because it is lost, are
// NaN, which SaveParameters() refuses.
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

  // Whether the parameters live on a device; if not, the rest of this class must not be called.
  virtual bool on_device() const = 0;

  // Returns the moments of Adam for this network, which must outlive them.
  virtual absl::StatusOr<std::unique_ptr<DeviceAdam>> MakeAdam() = 0;
  // Waits for the device and returns the Euclidean norm of the gradient.
  virtual absl::StatusOr<double> GradientNorm() = 0;
  // parameters = (1 - theta) parameters + theta * those of `online`. Returns whether `online` is on
  // the same device; if not, nothing is done. An error of the device comes from the next pass.
  virtual bool Approach(Network* online, float theta) = 0;
};

// Returns `network` as a network on a device, or null if its parameters are on the host.
inline DeviceNetwork* AsDevice(Network* network) {
  auto* const device = dynamic_cast<DeviceNetwork*>(network);
  return device != nullptr && device->on_device() ? device : nullptr;
}

// UpdateTarget() for networks, on their device if they have one.
void UpdateTarget(const TargetUpdate& update, int64_t train_iter, Network* online, Network* target);

}  // namespace ding

#endif  // DING_WORKER_POLICY_DEVICE_DEVICE_NETWORK_H_
