#include "ding_worker/interaction/control/protocol.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ProtocolTest, AcceptsAnotherMinorAndRefusesAnotherMajor) {
  ProtocolVersion version = CurrentProtocol();
  EXPECT_THAT(CheckProtocol(version), IsOk());
  version.set_minor(kProtocolMinor + 1);
  EXPECT_THAT(CheckProtocol(version), IsOk());
  version.set_major(kProtocolMajor + 1);
  version.set_minor(3);
  EXPECT_THAT(CheckProtocol(version), StatusIs(absl::StatusCode::kFailedPrecondition,
                                               AllOf(HasSubstr("3.3"), HasSubstr("2.x"))));
  EXPECT_THAT(CheckProtocol(ProtocolVersion()), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ProtocolTest, ParsesValidMessagesAndRefusesOthers) {
  WorkerMessage message;
  message.mutable_task_started()->set_task_id("task_0");
  DING_ASSERT_OK_AND_ASSIGN(const WorkerMessage read,
                            ParseWorkerMessage(message.SerializeAsString()));
  EXPECT_EQ(read.task_started().task_id(), "task_0");
  EXPECT_THAT(ParseWorkerMessage(""), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("empty message from a worker")));
  EXPECT_THAT(ParseCoordinatorMessage("\xff\xff"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("from a coordinator: cannot parse 2 bytes as a message")));
}

// The 16 MB of empty strings would become half a gigabyte when they are parsed.
TEST(ProtocolTest, AMessageThatNeedsTooMuchMemoryIsNotParsed) {
  std::string bytes(size_t{1} << 24, '\0');
  for (size_t i = 0; i < bytes.size(); i += 2) bytes[i] = (3 << 3) | 2;  // LearnerData.items, ""
  // LearnerData of CoordinatorMessage, whose length is a varint of four bytes.
  const size_t size = bytes.size() - 6;
  const char head[] = {(5 << 3) | 2, static_cast<char>(size | 0x80),
                       static_cast<char>(size >> 7 | 0x80), static_cast<char>(size >> 14 | 0x80),
                       static_cast<char>(size >> 21)};
  bytes.resize(size);
  bytes.insert(0, head, sizeof(head));
  EXPECT_THAT(ParseCoordinatorMessage(bytes),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("it may take more than 67108864 bytes")));
}

TEST(ProtocolTest, ADemandOutOfRangeIsRefused) {
  LearnerDemand demand;
  for (const auto& [batch_size, batches, ok] : {std::tuple<int64_t, int32_t, bool>(2, 3, true),
                                                {0, 1, false},
                                                {2, 0, false},
                                                {int64_t{1} << 60, 8, false},
                                                {1 << 20, 4, true},
                                                {1 << 20, 5, false}}) {
    demand.set_batch_size(batch_size);
    demand.set_batches(batches);
    EXPECT_EQ(CheckDemand(demand).ok(), ok) << batches << " of " << batch_size;
  }
  EXPECT_THAT(CheckDemand(demand),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a demand for 5 batches")));
}

TEST(ProtocolTest, AReportNeedsAnIdAndAPlaceForEachPriority) {
  LearnerInfo info;
  EXPECT_THAT(CheckLearnerInfo(info), IsOk());
  info.add_priority(1);
  info.add_replay_unique_id(2);
  EXPECT_THAT(CheckLearnerInfo(info), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("1 priorities for 1 ids and 0 places")));
  info.add_replay_buffer_idx(3);
  EXPECT_THAT(CheckLearnerInfo(info), IsOk());
  info.set_learner_step(-1);
  EXPECT_THAT(CheckLearnerInfo(info),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1 steps")));
}

TEST(ProtocolTest, AVersionAfterWhichThereIsNoRoomIsRefused) {
  EXPECT_THAT(CheckVersion(0), IsOk());
  EXPECT_THAT(CheckVersion(uint64_t{1} << 60), IsOk());
  EXPECT_THAT(CheckVersion((uint64_t{1} << 60) + 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected at most")));
}

TEST(ProtocolTest, SettingsKeepNamesAndOrder) {
  const NamedValues values = {{"eps", 0.9}, {"alpha", -1}};
  Settings settings;
  settings.Add();  // ToSettings() must replace it
  ToSettings(values, &settings);
  const NamedValues back = FromSettings(settings);
  EXPECT_EQ(back.Get("eps"), 0.9);
  EXPECT_EQ(back.Get("alpha"), -1);
  EXPECT_EQ(settings.size(), 2);
}

TEST(ProtocolTest, RolesHaveNames) {
  EXPECT_EQ(RoleName(Hello::COLLECTOR), "collector");
  EXPECT_EQ(RoleName(Hello::LEARNER), "learner");
  EXPECT_EQ(RoleName(Hello::OPERATOR), "operator");
}

}  // namespace
}  // namespace ding
