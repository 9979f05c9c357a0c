#include "ding_worker/adapter/group_roster.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using State = GroupRoster::State;

GroupReady Ready(uint32_t generation, int64_t train_iter = 0, const std::string& digest = "d") {
  GroupReady ready;
  ready.set_generation(generation);
  ready.set_train_iter(train_iter);
  ready.set_model_digest(digest);
  return ready;
}

class GroupRosterTest : public testing::Test {
 protected:
  void Add(uint32_t worker) {
    Hello hello;
    hello.set_role(Hello::LEARNER);
    hello.set_name(absl::StrCat("learner-", worker));
    hello.mutable_resources()->set_cpus(2);
    hello.mutable_resources()->set_memory_bytes(kMaxMemoryBytes / 2 + 1);
    hello.mutable_resources()->set_gpus(kMaxGpus / 2 + 1);
    roster_.Add(worker, hello, "peer", /*now_nanos=*/0);
  }

  GroupRoster roster_;
};

TEST_F(GroupRosterTest, ALearnerThatWasReplacedIsNotAdmitted) {
  Add(1);
  Hello hello;
  hello.set_name("learner-1");
  hello.set_pid(4712);
  hello.set_previous_worker(9);
  EXPECT_THAT(roster_.CheckAdmissible(hello), StatusIs(absl::StatusCode::kFailedPrecondition));
  roster_.Remove(1);
  EXPECT_THAT(roster_.CheckAdmissible(hello), IsOk());
}

TEST_F(GroupRosterTest, ResourcesAreAddedUpToTheCoordinatorsLimit) {
  for (uint32_t worker = 1; worker <= 3; ++worker) Add(worker);
  EXPECT_EQ(roster_.size(), 3);
  EXPECT_EQ(roster_.resources().gpus(), kMaxGpus);
  EXPECT_EQ(roster_.resources().cpus(), 6);
  EXPECT_EQ(roster_.resources().memory_bytes(), kMaxMemoryBytes);
}

TEST_F(GroupRosterTest, ReadyLearnersBecomeMembers) {
  for (uint32_t worker = 1; worker <= 3; ++worker) Add(worker);
  EXPECT_THAT(roster_.InState(State::kIdle), ElementsAre(1, 2, 3));
  ASSERT_THAT(roster_.TakeReady(3, Ready(0), 0), IsOk());
  ASSERT_THAT(roster_.TakeReady(1, Ready(0, 8), 0), IsOk());
  EXPECT_THAT(roster_.InState(State::kReady), ElementsAre(1, 3));
  EXPECT_EQ(roster_.Find(1).ready.train_iter(), 8);
  roster_.BeginGeneration({3, 1});
  EXPECT_THAT(roster_.InState(State::kReady), IsEmpty());
  EXPECT_THAT(roster_.InState(State::kMember), ElementsAre(1, 3));
  EXPECT_THAT(roster_.InState(State::kIdle), ElementsAre(2));
}

TEST_F(GroupRosterTest, AMemberCanOnlyLeaveThePresentGeneration) {
  Add(1);
  roster_.BeginGeneration({1});
  EXPECT_THAT(roster_.TakeReady(1, Ready(7), /*generation=*/4),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has left generation 7, expected generation 4")));
  EXPECT_THAT(roster_.InState(State::kMember), ElementsAre(1)) << "an error must change nothing";
  EXPECT_THAT(roster_.TakeReady(1, Ready(4), /*generation=*/4), IsOk());
  EXPECT_THAT(roster_.InState(State::kReady), ElementsAre(1));
}

TEST_F(GroupRosterTest, AllLearnersMustHaveTheSameModel) {
  Add(1);
  Add(2);
  EXPECT_THAT(roster_.TakeReady(1, Ready(0, -9), 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ready at iteration -9")));
  EXPECT_THAT(roster_.TakeReady(1, Ready(0, 0, ""), 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("with digest ''")));
  ASSERT_THAT(roster_.TakeReady(1, Ready(0), 0), IsOk());
  EXPECT_THAT(roster_.TakeReady(2, Ready(0, 0, "another"), 0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("learner-2 has digest another, expected d")));
  roster_.SetState(1, State::kFailed);
  EXPECT_THAT(roster_.TakeReady(2, Ready(0, 0, "another"), 0), IsOk())
      << "no other is in the group";
}

TEST_F(GroupRosterTest, ValuesOfAGenerationAreLimited) {
  Add(1);
  roster_.BeginGeneration({1});
  GroupValue value;
  value.set_generation(3);
  for (int i = 0; i < 15; ++i) ASSERT_THAT(roster_.CountValue(1, value), IsOk());
  GroupValue large = value;
  large.set_value(std::string(600 * 1024, 'x'));
  ASSERT_THAT(roster_.CountValue(1, large), IsOk());
  EXPECT_THAT(roster_.CountValue(1, value),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("17 values of ")));
  roster_.BeginGeneration({1});
  EXPECT_THAT(roster_.CountValue(1, large), IsOk()) << "a new generation begins with no values";
  EXPECT_THAT(roster_.CountValue(1, large),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2 values of 12288")));
}

}  // namespace
}  // namespace ding
