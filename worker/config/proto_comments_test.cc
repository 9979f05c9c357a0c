#include "ding_worker/worker/config/proto_comments.h"

#include <string>

#include "absl/strings/string_view.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.pb.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using google::protobuf::Descriptor;

// Other comments than those of the real file.
constexpr char kFile[] = R"(
// About the file.
syntax = "proto2";
package ding;
import "google/protobuf/any.proto";
option optimize_for = SPEED;

// A value that
//   changes.
message ScheduleConfig {  // linearly or not
  reserved 9;
  // The kind.
  enum Type {
    EXP = 0;     // fast
    // Straight,
    // to the end.
    LINEAR = 1;
  }
  optional Type type = 1 [default = EXP];  // how
  // Both ends.
  optional double start = 2 [default = 0.95];
  optional double end = 3
      [default = 0.1];

  optional double decay = 4;
}

message NetworkConfig {
  message Unused { optional int32 type = 1; /* inside */ }
  repeated int64 encoder_hidden_size = 2;  // widths, from "a;b{" on
  // For one alternative nobody needs this.
  oneof memory {
    RecurrentConfig recurrent = 9;  // the layer
  }
  map<string, int32> conv = 3;  // pictures
  optional int64 head_layer_num = 5;
}

message DqnConfig {
  optional NetworkConfig model = 1;  // the network
  optional double learning_rate = 2;
  optional ScheduleConfig eps = 6;
}
service Nothing { rpc Do(A) returns (B); }
// The last message.
message PolicyConfig {}
)";

const bool added = (AddProtoFile(kFile), AddProtoFile("message {{ ; \" \x01"), true);

std::string OfField(const Descriptor& message, const char* name) {
  return CommentOf(*message.FindFieldByName(name));
}

TEST(ProtoCommentsTest, MessagesFieldsAndValuesHaveTheirComments) {
  ASSERT_TRUE(added);
  const Descriptor& schedule = *ScheduleConfig::descriptor();
  EXPECT_EQ(CommentOf(schedule), "A value that changes. linearly or not");
  EXPECT_EQ(OfField(schedule, "type"), "how");
  EXPECT_EQ(CommentOf(*ScheduleConfig::Type_descriptor()->value(0)), "fast");
  EXPECT_EQ(CommentOf(*ScheduleConfig::Type_descriptor()->value(1)), "Straight, to the end.");
  EXPECT_EQ(OfField(*NetworkConfig::descriptor(), "encoder_hidden_size"),
            "widths, from \"a;b{\" on");
  EXPECT_EQ(OfField(*NetworkConfig::descriptor(), "recurrent"), "the layer");
  EXPECT_EQ(CommentOf(*PolicyConfig::descriptor()), "The last message.");
}

TEST(ProtoCommentsTest, AFieldRightBelowAnotherSharesItsComment) {
  const Descriptor& schedule = *ScheduleConfig::descriptor();
  EXPECT_EQ(OfField(schedule, "start"), "Both ends.");
  EXPECT_EQ(OfField(schedule, "end"), "as start");
  EXPECT_EQ(OfField(schedule, "decay"), "") << "there is an empty line between";
  EXPECT_EQ(OfField(*NetworkConfig::descriptor(), "conv"), "pictures");
  EXPECT_EQ(OfField(*NetworkConfig::descriptor(), "head_layer_num"), "as conv");
  EXPECT_EQ(OfField(*DqnConfig::descriptor(), "learning_rate"), "as model");
  EXPECT_EQ(OfField(*DqnConfig::descriptor(), "eps"), "") << "it is a message";
}

TEST(ProtoCommentsTest, DeclarationsOfOtherFilesHaveNoComment) {
  EXPECT_EQ(CommentOf(*google::protobuf::Any::descriptor()), "");
  EXPECT_EQ(OfField(*NetworkConfig::descriptor(), "activation"), "");
}

}  // namespace
}  // namespace ding
