// Tests that every transport must pass, as a suite to instantiate. Both ends are in one process.
//
// Example (the test's target depends on :transport_conformance, which has `alwayslink`):
//   INSTANTIATE_TEST_SUITE_P(InProcess, TransportConformance, testing::Values(kInProcess),
//                            TransportConformanceName);
#ifndef DING_WORKER_INTERACTION_TRANSPORT_TRANSPORT_CONFORMANCE_H_
#define DING_WORKER_INTERACTION_TRANSPORT_TRANSPORT_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/transport/transport.h"
#include "gtest/gtest.h"

namespace ding {

struct TransportConformanceCase {
  std::string name;
  std::function<std::unique_ptr<Transport>()> create;
  // Returns an address where nobody listens, a new one each time.
  std::function<std::string()> fresh_address;
  std::string bad_address;  // not a valid address of the transport
};

// Lets GoogleTest show the name of a case; otherwise it shows the bytes.
inline void PrintTo(const TransportConformanceCase& of_test, std::ostream* out) {
  *out << of_test.name;
}

inline std::string TransportConformanceName(
    const testing::TestParamInfo<TransportConformanceCase>& info) {
  return info.param.name;
}

class TransportConformance : public testing::TestWithParam<TransportConformanceCase> {
 protected:
  // Much longer than any call takes: a call that waits so long has hung.
  static constexpr absl::Duration kLong = absl::Seconds(60);
  // How long a test waits for something that must not happen.
  static constexpr absl::Duration kShort = absl::Milliseconds(20);

  // The two ends of a connection; nullptr after a failure.
  struct Ends {
    std::unique_ptr<Connection> caller;
    std::unique_ptr<Connection> callee;
  };

  void SetUp() override { Listen(); }

  // Replaces listener_ with a listener at a fresh address.
  void Listen();
  Ends Connect();
  // Sends messages until the other side takes no more, and returns their number n. The messages are
  // "0:" to "<n-1>:", padded to the same size. The test fails if the queues seem to have no bound.
  int Fill(Connection* connection);
  // Returns the error of Send() once this side knows that the peer has ended, which may take a
  // moment.
  absl::Status SendStatusOfLost(Connection* connection);

  const std::unique_ptr<Transport> transport_ = GetParam().create();
  std::unique_ptr<Listener> listener_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TRANSPORT_TRANSPORT_CONFORMANCE_H_
