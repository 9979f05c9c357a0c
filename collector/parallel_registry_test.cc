#include "ding_worker/collector/parallel_registry.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/metrics/sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;

absl::Status Create(const ParallelCollectorConfig& config) {
  return create_parallel_collector(config, ParallelCollectorTask(), ParallelCollectorParts(),
                                   ComponentDeps())
      .status();
}

ParallelCollectorConfig ConfigWithAWord(const std::string& type) {
  ParallelCollectorConfig config;
  config.set_type(type);
  ding_user::WordParams params;
  params.set_word("hello");
  config.mutable_params()->PackFrom(params);
  return config;
}

TEST(ParallelCollectorRegistryTest, OurTypesTakeNoParams) {
  for (const std::string type : {"zergling", "marine"}) {
    EXPECT_THAT(Create(ConfigWithAWord(type)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("params hold a ding_user.WordParams, but type '" + type +
                                   "' takes none")));
  }
}

// A type that notes what its params say.
class ParamsOfAUser : public testing::Test {
 protected:
  ParallelCollectorDescriptor Descriptor() {
    ParallelCollectorDescriptor descriptor;
    descriptor.name = "mine";
    descriptor.create =
        [this](const ParallelCollectorConfig& config, const ParallelCollectorTask&,
               const ParallelCollectorParts&,
               const ComponentDeps&) -> absl::StatusOr<std::unique_ptr<BaseParallelCollector>> {
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
  ScopedRegistration<ParallelCollectorDescriptor> registration(&ParallelCollectorRegistry(), "mine",
                                                               Descriptor());
  EXPECT_THAT(Create(ConfigWithAWord("mine")), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(word_, "hello");
}

TEST_F(ParamsOfAUser, AreCheckedBeforeTheFactoryIsCalled) {
  ParallelCollectorDescriptor descriptor = Descriptor();
  descriptor.check_params = TakesParams<ding_user::WordParams>;
  ScopedRegistration<ParallelCollectorDescriptor> registration(&ParallelCollectorRegistry(), "mine",
                                                               descriptor);
  EXPECT_THAT(Create(ConfigWithAWord("mine")), StatusIs(absl::StatusCode::kAborted));
  word_ = "not called";
  ParallelCollectorConfig config = ConfigWithAWord("mine");
  config.mutable_params()->PackFrom(ding_user::ChoiceConfig());
  EXPECT_THAT(Create(config), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("params hold a ding_user.ChoiceConfig, expected a "
                                                 "ding_user.WordParams for type 'mine'")));
  EXPECT_EQ(word_, "not called");
}

}  // namespace
}  // namespace ding
