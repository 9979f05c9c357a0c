#include "ding_worker/tools/build_defs/testdata/inner.pb.h"
#include "ding_worker/tools/build_defs/testdata/outer.pb.h"
#include "gtest/gtest.h"

namespace ding::testdata {
namespace {

TEST(ProtoTest, AnAnyRoundTrips) {
  Outer outer;
  EXPECT_EQ(outer.number(), 3);
  Inner carried;
  outer.mutable_inner()->mutable_any()->PackFrom(carried);
  Outer copy;
  ASSERT_TRUE(copy.ParseFromString(outer.SerializeAsString()));
  EXPECT_TRUE(copy.inner().any().Is<Inner>());
}

}  // namespace
}  // namespace ding::testdata
