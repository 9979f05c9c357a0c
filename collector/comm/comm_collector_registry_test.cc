#include "ding_worker/collector/comm/comm_collector_registry.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/store/store.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kField[] = "comm_collector_params";

// Creates a worker of `type`; `params` may be null.
absl::Status Create(const std::string& type, const google::protobuf::Any* params) {
  return create_comm_collector(GivenParams(type, params, kField), /*session=*/nullptr,
                               /*store=*/nullptr, TaskCollectorFactory())
      .status();
}

google::protobuf::Any Word(const std::string& word) {
  ding_user::WordParams params;
  params.set_word(word);
  google::protobuf::Any any;
  any.PackFrom(params);
  return any;
}

TEST(CommCollectorRegistryTest, OurTypesTakeNoParams) {
  EXPECT_THAT(CommCollectorRegistry().Names(), ElementsAre("flask_fs", "grpc_fs", "grpc_redis"));
  const google::protobuf::Any word = Word("hello");
  for (const std::string& type : CommCollectorRegistry().Names()) {
    EXPECT_THAT(Create(type, &word),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("comm_collector_params hold a ding_user.WordParams, but type '" +
                                   type + "' takes none")));
  }
}

// A type that notes what its params say. CommLearnerRegistry has the same tests: almost every line
// names a type of the registry, so a template of both would be longer than the second copy.
class ParamsOfAUser : public testing::Test {
 protected:
  CommCollectorDescriptor Descriptor() {
    CommCollectorDescriptor descriptor;
    descriptor.create =
        [this](const GivenParams& config, WorkerSession*, Store*,
               TaskCollectorFactory) -> absl::StatusOr<std::unique_ptr<BaseCommCollector>> {
      ding_user::WordParams params;
      DING_RETURN_IF_ERROR(ReadParams(config, &params));
      word_ = params.word();
      return absl::AbortedError("the params were read");
    };
    return descriptor;
  }

  std::string word_;
};

TEST_F(ParamsOfAUser, ReachTheFactory) {
  ScopedRegistration<CommCollectorDescriptor> registration(&CommCollectorRegistry(), "mine",
                                                           Descriptor());
  const google::protobuf::Any word = Word("hello");
  EXPECT_THAT(Create("mine", &word), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(word_, "hello");
  EXPECT_THAT(Create("mine", nullptr), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(word_, "") << "the default";
}

TEST_F(ParamsOfAUser, AreCheckedBeforeTheFactoryIsCalled) {
  CommCollectorDescriptor descriptor = Descriptor();
  descriptor.check_params = TakesParams<ding_user::WordParams>;
  ScopedRegistration<CommCollectorDescriptor> registration(&CommCollectorRegistry(), "mine",
                                                           descriptor);
  word_ = "not called";
  google::protobuf::Any other;
  other.PackFrom(ding_user::ChoiceConfig());
  EXPECT_THAT(Create("mine", &other),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("comm_collector_params hold a ding_user.ChoiceConfig, expected a "
                                 "ding_user.WordParams for type 'mine'")));
  EXPECT_EQ(word_, "not called");
}

}  // namespace
}  // namespace ding
