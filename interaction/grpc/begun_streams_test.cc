#include "ding_worker/interaction/grpc/begun_calls.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// gRPC and the connection gate write the address of a peer differently.
TEST(PeerOfUriTest, ConvertsGrpcUrisToSocketAddresses) {
  EXPECT_EQ(PeerOfUri("ipv4:127.0.0.1:41234"), "127.0.0.1:41234");
  EXPECT_EQ(PeerOfUri("ipv6:%5B::1%5D:41234"), "[::1]:41234");
  EXPECT_EQ(PeerOfUri("ipv6:[::1]:41234"), "[::1]:41234");
  EXPECT_EQ(PeerOfUri("ipv6:%5Bfe80::1%252%5D:41234"), "[fe80::1]:41234");
}

}  // namespace
}  // namespace ding
