// Tests that every transport must pass: a suite to instantiate. They drive two ends in one process.
//
// Example (the test's target depends on this one, which has `alwayslink`):
//   INSTANTIATE_TEST_SUITE_P(InProcess, TransportConformance, testing::Values(kInProcess),
//                            TransportConformanceName);
#ifndef DING_WORKER_INTERACTION_TRANSPORT_CONFORMANCE_H_
#define DING_WORKER_INTERACTION_TRANSPORT_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/transport.h"
#include "gtest/gtest.h"

namespace ding {

struct TransportConformanceCase {
  std::string name;
  std::function<std::unique_ptr<Transport>()> create;
  // Where nobody listens; another one each time.
  std::function<std::string()> fresh_address;
  std::string bad_address;  // is none
};

inline std::string TransportConformanceName(
    const testing::TestParamInfo<TransportConformanceCase>& info) {
  return info.param.name;
}

class TransportConformance : public testing::TestWithParam<TransportConformanceCase> {
 protected:
  // Far more than anything takes: what waits that long has hung.
  static constexpr absl::Duration kLong = absl::Seconds(60);
  // For what is not to happen.
  static constexpr absl::Duration kShort = absl::Milliseconds(20);

  // Two ends of a connection; nullptr after a failure.
  struct Ends {
    std::unique_ptr<Connection> caller;
    std::unique_ptr<Connection> callee;
  };

  void SetUp() override { Listen(); }

  // Replaces listener_ by one at a fresh address.
  void Listen();
  Ends Connect();
  // Sends until the other side takes no more; returns the number of messages, "0" to "<n-1>" with
  // padding behind, or one that is too high to be bounded.
  int Fill(Connection* connection);
  // What Send() says once the end of the peer is known here, which may take a moment.
  absl::Status SendStatusOfLost(Connection* connection);

  const std::unique_ptr<Transport> transport_ = GetParam().create();
  std::unique_ptr<Listener> listener_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TRANSPORT_CONFORMANCE_H_
