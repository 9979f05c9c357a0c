#include "ding_worker/interaction/protocol.h"

#include <string>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ProtocolTest, AnotherMinorIsUnderstoodAnotherMajorIsNot) {
  ProtocolVersion version = CurrentProtocol();
  EXPECT_THAT(CheckProtocol(version), IsOk());
  version.set_minor(kProtocolMinor + 1);
  EXPECT_THAT(CheckProtocol(version), IsOk());
  version.set_major(kProtocolMajor + 1);
  version.set_minor(3);
  EXPECT_THAT(CheckProtocol(version), StatusIs(absl::StatusCode::kFailedPrecondition,
                                               AllOf(HasSubstr("2.3"), HasSubstr("1.x"))));
  EXPECT_THAT(CheckProtocol(ProtocolVersion()), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ProtocolTest, MessagesAreReadOrRefused) {
  WorkerMessage message;
  message.mutable_task_started()->set_task_id("task_0");
  DING_ASSERT_OK_AND_ASSIGN(const WorkerMessage read,
                            ParseWorkerMessage(message.SerializeAsString()));
  EXPECT_EQ(read.task_started().task_id(), "task_0");
  EXPECT_THAT(ParseWorkerMessage(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty message of a worker")));
  EXPECT_THAT(ParseCoordinatorMessage("\xff\xff"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 bytes")));
}

TEST(ProtocolTest, SettingsKeepNamesAndOrder) {
  const NamedValues values = {{"eps", 0.9}, {"alpha", -1}};
  Settings settings;
  settings.Add();  // is replaced
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
