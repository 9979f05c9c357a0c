#include "ding_worker/coordinator/state/operator_commands.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace internal_coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class OperatorCommandsTest : public testing::Test {
 protected:
  OperatorCommandsTest() {
    Add(1, Hello::LEARNER, "learner-0");
    workers_.Find(1)->group.add_member()->set_name("member-0");
    Add(2, Hello::COLLECTOR, "collector-0");
    Add(3, Hello::COLLECTOR, "collector-1");
  }
  void Add(uint32_t id, Hello::Role role, const std::string& name) {
    Hello hello;
    hello.set_role(role);
    hello.set_name(name);
    workers_.Add(id, hello, "peer", /*now_nanos=*/0);
  }
  absl::StatusOr<OperatorCommands::Decision> Decide(const OperatorRequest& request) {
    return commands_.Decide(request, workers_, {"buffer_0"});
  }
  absl::StatusOr<OperatorCommands::Decision> Inspect(const std::string& name) {
    OperatorRequest request;
    request.set_inspect(name);
    return Decide(request);
  }
  absl::StatusOr<OperatorCommands::Decision> Grow(int32_t by) {
    OperatorRequest request;
    request.set_grow(by);
    return Decide(request);
  }
  absl::StatusOr<OperatorCommands::Decision> Shrink(int32_t by) {
    OperatorRequest request;
    request.set_shrink(by);
    return Decide(request);
  }
  absl::StatusOr<OperatorCommands::Decision> Drain(const std::string& name) {
    OperatorRequest request;
    request.set_drain(name);
    return Decide(request);
  }

  WorkerRoster workers_;
  OperatorCommands commands_{/*wanted_collectors=*/2, /*max_collectors=*/4};
};

TEST_F(OperatorCommandsTest, InspectsExistingWorkersAndBuffers) {
  for (const char* const name : {"", "learner-0", "member-0", "collector-1", "buffer_0"}) {
    DING_ASSERT_OK_AND_ASSIGN(const OperatorCommands::Decision decision, Inspect(name));
    EXPECT_THAT(decision.message, IsEmpty());
    EXPECT_THAT(decision.drained, IsEmpty());
    EXPECT_FALSE(decision.stops);
  }
  EXPECT_THAT(Inspect("nobody"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("nor a buffer 'nobody', expected one of: learner-0, member-0, "
                                 "collector-0, collector-1, buffer_0")));
  OperatorRequest request;
  request.set_inspect("nobody");
  EXPECT_THAT(commands_.Decide(request, WorkerRoster(), {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("and none at all yet")));
}

TEST_F(OperatorCommandsTest, GrowsAndShrinksWithinTheLimits) {
  DING_ASSERT_OK_AND_ASSIGN(OperatorCommands::Decision decision, Grow(2));
  EXPECT_EQ(decision.message, "4 collectors are wanted");
  EXPECT_THAT(decision.drained, IsEmpty());
  EXPECT_THAT(Grow(1), StatusIs(kInvalid, HasSubstr("that would be 5 collectors instead of 4, "
                                                    "expected 0 to 4")));
  EXPECT_THAT(Shrink(5), StatusIs(kInvalid, HasSubstr("that would be -1 collectors")));
  EXPECT_THAT(Grow(0), StatusIs(kInvalid, HasSubstr("grow by 0 collectors")));
  EXPECT_THAT(Shrink(-1), StatusIs(kInvalid, HasSubstr("shrink by -1 collectors")));
  EXPECT_EQ(commands_.wanted_collectors(), 4);
  DING_ASSERT_OK_AND_ASSIGN(decision, Shrink(2));
  EXPECT_THAT(decision.drained, IsEmpty()) << "there are no more than two";
  DING_ASSERT_OK_AND_ASSIGN(decision, Shrink(1));
  EXPECT_THAT(decision.drained, ElementsAre(3));
  EXPECT_EQ(commands_.wanted_collectors(), 1);
}

TEST_F(OperatorCommandsTest, DrainsCollectorsOnce) {
  DING_ASSERT_OK_AND_ASSIGN(const OperatorCommands::Decision decision, Drain("collector-0"));
  EXPECT_THAT(decision.drained, ElementsAre(2));
  EXPECT_EQ(decision.message, "collector-0 is drained; 1 collectors are wanted");
  workers_.Find(2)->draining = true;
  EXPECT_THAT(Drain("collector-0"), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Drain("learner-0"), StatusIs(kInvalid, HasSubstr("is a learner, expected")));
  EXPECT_THAT(Drain("member-0"), StatusIs(kInvalid, HasSubstr("is a learner, expected")));
  EXPECT_THAT(Drain("buffer_0"), StatusIs(kInvalid, HasSubstr("is a buffer, expected")));
  EXPECT_THAT(Drain("nobody"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(commands_.wanted_collectors(), 1);
}

TEST_F(OperatorCommandsTest, AStopIsRemembered) {
  OperatorRequest stop;
  stop.set_stop(true);
  DING_ASSERT_OK_AND_ASSIGN(const OperatorCommands::Decision decision, Decide(stop));
  EXPECT_TRUE(decision.stops);
  EXPECT_TRUE(commands_.stop_wanted());
  StateRecord state;
  commands_.Save(&state);
  OperatorCommands next(/*wanted_collectors=*/0, /*max_collectors=*/4);
  next.Load(state, /*goes_on_after_stop=*/false);
  EXPECT_TRUE(next.stop_wanted());
  EXPECT_EQ(next.wanted_collectors(), 2);
  next.Load(state, /*goes_on_after_stop=*/true);
  EXPECT_FALSE(next.stop_wanted());
  EXPECT_THAT(Decide(OperatorRequest()), StatusIs(kInvalid, HasSubstr("is not known")));
}

TEST(KeepNamedTest, KeepsOnlyThePartsWithTheName) {
  RunStatus all;
  all.add_worker()->set_name("a");
  all.mutable_worker(0)->add_member()->set_name("b");
  all.add_worker()->set_name("c");
  all.add_buffer()->set_buffer_id("buffer_0");
  RunStatus status = all;
  KeepNamed("", &status);
  EXPECT_EQ(status.worker_size(), 2);
  KeepNamed("b", &status);
  ASSERT_EQ(status.worker_size(), 1);
  EXPECT_EQ(status.worker(0).name(), "b");
  EXPECT_EQ(status.buffer_size(), 0);
  KeepNamed("buffer_0", &all);
  EXPECT_EQ(all.worker_size(), 0);
  EXPECT_EQ(all.buffer_size(), 1);
}

}  // namespace
}  // namespace internal_coordinator
}  // namespace ding
