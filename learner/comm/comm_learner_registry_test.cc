#include "ding_worker/learner/comm/comm_learner_registry.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;

constexpr char kField[] = "comm_learner_params";

// Creates a worker of `type`; `params` may be null.
absl::Status Create(const std::string& type, const google::protobuf::Any* params) {
  return create_comm_learner(GivenParams(type, params, kField), CommLearnerOptions(),
                             /*session=*/nullptr,
                             /*store=*/nullptr, TaskLearnerFactory())
      .status();
}

google::protobuf::Any Word(const std::string& word) {
  ding_user::WordParams params;
  params.set_word(word);
  google::protobuf::Any any;
  any.PackFrom(params);
  return any;
}

TEST(CommLearnerRegistryTest, OurTypesTakeNoParams) {
  EXPECT_THAT(CommLearnerRegistry().Names(), ElementsAre("flask_fs", "grpc_fs", "grpc_redis"));
  const google::protobuf::Any word = Word("hello");
  for (const std::string& type : CommLearnerRegistry().Names()) {
    EXPECT_THAT(Create(type, &word),
                IsInvalid("comm_learner_params hold a ding_user.WordParams, but type '" + type +
                          "' takes none"));
  }
}

// A type that notes what its params say.
// CommCollectorRegistry has the same tests; the reason is there.
class ParamsOfAUser : public testing::Test {
 protected:
  CommLearnerDescriptor Descriptor() {
    CommLearnerDescriptor descriptor;
    descriptor.create =
        [this](const GivenParams& config, const CommLearnerOptions&, WorkerSession*, Store*,
               TaskLearnerFactory) -> absl::StatusOr<std::unique_ptr<BaseCommLearner>> {
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
  ScopedRegistration<CommLearnerDescriptor> registration(&CommLearnerRegistry(), "mine",
                                                         Descriptor());
  const google::protobuf::Any word = Word("hello");
  EXPECT_THAT(Create("mine", &word), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(word_, "hello");
  EXPECT_THAT(Create("mine", nullptr), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(word_, "") << "the default";
}

TEST_F(ParamsOfAUser, AreCheckedBeforeTheFactoryIsCalled) {
  CommLearnerDescriptor descriptor = Descriptor();
  descriptor.check_params = TakesParams<ding_user::WordParams>;
  ScopedRegistration<CommLearnerDescriptor> registration(&CommLearnerRegistry(), "mine",
                                                         descriptor);
  word_ = "not called";
  google::protobuf::Any other;
  other.PackFrom(ding_user::ChoiceConfig());
  EXPECT_THAT(Create("mine", &other),
              IsInvalid("comm_learner_params hold a ding_user.ChoiceConfig, expected a "
                        "ding_user.WordParams for type 'mine'"));
  EXPECT_EQ(word_, "not called");
}

}  // namespace
}  // namespace ding
