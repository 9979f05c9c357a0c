// Tests what the factories of all types of buffers pass on. The test is linked statically, like a
// program, so that a missing alwayslink shows.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/deque_buffer.pb.h"
#include "ding_worker/replay_buffer/elastic_buffer.pb.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

BufferConfig Plain(const std::string& type) {
  BufferConfig config;
  config.set_type(type);
  return config;
}

template <typename Params>
BufferConfig With(const std::string& type, const Params& params) {
  BufferConfig config = Plain(type);
  config.mutable_params()->PackFrom(params);
  return config;
}

// A small buffer that reports often.
BufferConfig ConfigOf(const std::string& type) {
  BufferConfig config = Plain(type);
  if (type == "sequence") {
    SequenceBufferConfig params;
    params.set_unroll_len(3);
    config = With(type, params);
  }
  config.set_replay_buffer_size(8);
  config.set_periodic_thruput_seconds(3);
  return config;
}

// With these parameters the deque uses another buffer than without parameters.
BufferConfig PrioritizedDeque() {
  DequeBufferConfig params;
  params.set_priority(true);
  params.set_train_iter_per_log(3);
  BufferConfig config = ConfigOf("deque");
  config.mutable_params()->PackFrom(params);
  return config;
}

std::vector<BufferConfig> AllConfigs() {
  std::vector<BufferConfig> configs = {PrioritizedDeque()};
  for (const std::string& type : BufferRegistry().Names()) configs.push_back(ConfigOf(type));
  return configs;
}

class BufferOfAnyType : public testing::TestWithParam<BufferConfig> {
 protected:
  BufferDeps Deps() const {
    ComponentDeps deps;
    deps.name = "replay";
    deps.clock = &clock_;
    deps.metrics = sink_;
    return deps;
  }
  bool HoldsItems() const { return GetParam().type() != "sequence"; }
  std::vector<double> Values(const std::string& tag) const {
    return sink_->ValuesOf("replay_sec/" + tag);
  }

  SimulatedClock clock_;
  const std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
};
INSTANTIATE_TEST_SUITE_P(AllTypes, BufferOfAnyType, testing::ValuesIn(AllConfigs()),
                         [](const testing::TestParamInfo<BufferConfig>& info) {
                           return info.param.type() + std::to_string(info.index);
                         });

TEST_P(BufferOfAnyType, CountsRowsInTheSinkOfTheRun) {
  TestStreams streams;
  {
    DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(GetParam(), Deps()));
    ASSERT_THAT(buffer->Push(streams.Make({{0, 6, SegmentEnd::kTerminated}}), 1), IsOk());
    ASSERT_THAT(buffer->Push(streams.Make({{1, 4, SegmentEnd::kTerminated}}), 2), IsOk());
    EXPECT_THAT(buffer->Sample(1000, 0), IsFailedPrecondition()) << "and does not count";
    clock_.Advance(absl::Milliseconds(2999));
    DING_ASSERT_OK_AND_ASSIGN(const Batch first, buffer->Sample(1, 0));
    EXPECT_THAT(Values("pushed_in"), IsEmpty());
    clock_.Advance(absl::Milliseconds(1));
    DING_ASSERT_OK_AND_ASSIGN(const Batch second, buffer->Sample(1, 0));
    EXPECT_THAT(Values("pushed_in"), ElementsAre(10));
    EXPECT_THAT(Values("sampled_out"), ElementsAre(first.rows() + second.rows()));
    EXPECT_THAT(Values("removed"), ElementsAre(2));
    EXPECT_THAT(Values("current_have"), ElementsAre(8));

    // Rows that are loaded count neither as pushed nor as removed.
    StateDict saved;
    ASSERT_THAT(buffer->SaveState(&saved), IsOk());
    buffer->Clear();
    ASSERT_THAT(buffer->LoadState(&saved), IsOk());
  }
  EXPECT_THAT(Values("pushed_in"), ElementsAre(10, 0));
  EXPECT_THAT(Values("removed"), ElementsAre(2, 8));
  EXPECT_THAT(Values("current_have"), ElementsAre(8, 8));
}

TEST_P(BufferOfAnyType, PushesAloneEndAPeriod) {
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(GetParam(), Deps()));
  TestStreams streams;
  clock_.Advance(absl::Seconds(3));
  for (int i = 0; i < 16; ++i) ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), i), IsOk());
  EXPECT_THAT(Values("pushed_in"), ElementsAre(16));
}

TEST_P(BufferOfAnyType, RefusesAPeriodOfZeroWithOneMessage) {
  BufferConfig config = GetParam();
  config.set_periodic_thruput_seconds(0);
  const absl::Status status = create_buffer(config, Deps()).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               "replay: periodic_thruput_seconds is 0, expected above 0"));
}

TEST_P(BufferOfAnyType, ReportsRemovedItemsOrRefusesItems) {
  std::vector<int64_t> chunks;
  BufferDeps deps = Deps();
  deps.on_removed = [&chunks](const RemovedItems& removed) {
    chunks.insert(chunks.end(), removed.chunks.begin(), removed.chunks.end());
  };
  if (!HoldsItems()) {
    EXPECT_THAT(create_buffer(GetParam(), deps), IsInvalid("do not tell which items left them"));
    DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(GetParam(), Deps()));
    EXPECT_THAT(buffer->Push(TestItemsOfChunk(1, 3), 0), IsInvalid("the rows are items"));
    EXPECT_EQ(buffer->push_count(), 0);
    return;
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(GetParam(), deps));
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(1, 3), 0), IsOk());
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(2, 8), 0), IsOk());
  EXPECT_THAT(chunks, ElementsAre(1));
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_EQ(batch.column<int64_t>("chunk")[0], 2);
}

TEST(DequeBuffer, WritesStatisticsEveryTrainIterPerLogDraws) {
  const auto sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  deps.name = "replay";
  deps.metrics = sink;
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(PrioritizedDeque(), deps));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 1), IsOk());
  for (int64_t iter = 0; iter < 7; ++iter) ASSERT_THAT(buffer->Sample(1, iter), IsOk());
  // These are the values of the first, fourth and seventh draw, not averages over the draws
  // between.
  EXPECT_THAT(sink->ValuesOf("replay_iter/use_avg"), ElementsAre(1, 4, 7));
}

// The settings of a type that are wrong, as the text of a config, and what the error says of them.
struct WrongConfig {
  const char* config;
  std::vector<const char*> problems;
};

TEST(BufferFactories, AllWrongSettingsAreListed) {
  const WrongConfig cases[] = {
      {"replay_buffer_size: -3 nstep: 0 discount_factor: nan periodic_thruput_seconds: 0",
       {"main: replay_buffer_size is -3", "nstep is 0", "discount_factor is nan",
        "periodic_thruput_seconds is 0, expected above 0"}},
      {"params { [type.googleapis.com/ding.BufferConfig] {} }", {"type 'naive' takes none"}},
      {"type: 'advanced' params { [type.googleapis.com/ding.AdvancedBufferConfig] { "
       "alpha: 2 beta: -1 anneal_step: -2 max_use: 0 max_staleness: -1 thruput_controller { "
       "window_seconds: 0 sample_min_limit_ratio: 0.5 max_wait_seconds: -1 } "
       "monitor { sampled_data_attr { print_freq: 0 } } } }",
       {"params.alpha is 2, expected in [0, 1]", "beta is -1", "anneal_step is -2", "max_use is 0",
        "max_staleness is -1", "window_seconds is 0", "sample_min_limit_ratio is 0.5",
        "max_wait_seconds is -1", "sampled_data_attr.print_freq is 0"}},
      {"type: 'advanced' replay_buffer_size: -3 nstep: 0 discount_factor: nan "
       "periodic_thruput_seconds: 0",
       {"main: replay_buffer_size is -3", "nstep is 0", "discount_factor is nan",
        "periodic_thruput_seconds is 0"}},
      {"type: 'advanced' params { [type.googleapis.com/ding.BufferConfig] {} }",
       {"ding.BufferConfig, expected a ding.AdvancedBufferConfig"}},
      {"type: 'deque' params { [type.googleapis.com/ding.DequeBufferConfig] { max_use: 0 "
       "train_iter_per_log: 0 IS_weight_power_factor: 2 IS_weight_anneal_train_iter: 0 "
       "priority_max_limit: 0 } }",
       {"max_use is 0", "train_iter_per_log is 0",
        "params.IS_weight_power_factor is 2, expected in [0, 1]",
        "IS_weight_anneal_train_iter is 0", "priority_max_limit is 0"}},
      {"type: 'deque' params { [type.googleapis.com/ding.DequeBufferConfig] { "
       "priority_IS_weight: true } }",
       {"priority_IS_weight is true, expected only with priority"}},
      {"type: 'elastic' params { [type.googleapis.com/ding.ElasticBufferConfig] { "
       "window_start: 0 window_end: -1 decay_envsteps: 0 } }",
       {"window_start is 0", "window_end is -1", "decay_envsteps is 0"}},
      {"type: 'elastic' nstep: 0 periodic_thruput_seconds: 0",
       {"nstep is 0", "periodic_thruput_seconds is 0"}},
      {"type: 'elastic' params { [type.googleapis.com/ding.BufferConfig] {} }",
       {"expected a ding.ElasticBufferConfig"}},
      {"type: 'sequence' params { [type.googleapis.com/ding.SequenceBufferConfig] { "
       "unroll_len: 0 } }",
       {"params.unroll_len is 0, expected"}},
      {"type: 'sequence' nstep: 0 periodic_thruput_seconds: 0",
       {"nstep is 0", "periodic_thruput_seconds is 0"}},
      {"type: 'sequence' params { [type.googleapis.com/ding.SequenceBufferConfig] { "
       "priority { alpha: -1 } } }",
       {"alpha is -1"}},
      {"type: 'episode' nstep: 0", {"nstep is 0"}},
      {"type: 'episode' params { [type.googleapis.com/ding.SequenceBufferConfig] {} }",
       {"type 'episode' takes none"}}};
  ComponentDeps deps;
  deps.name = "main";
  for (const WrongConfig& wrong : cases) {
    BufferConfig config;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(wrong.config, &config))
        << wrong.config;
    const absl::Status status = create_buffer(config, deps).status();
    for (const char* const problem : wrong.problems) {
      EXPECT_THAT(status, IsInvalid(problem)) << wrong.config;
    }
  }
}

TEST(BufferFactories, TheDefaultsSetTheCapacity) {
  const std::pair<const char*, int64_t> cases[] = {
      {"naive", 10000}, {"deque", 10000}, {"advanced", 4096}};
  for (const auto& [type, capacity] : cases) {
    DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(Plain(type), ComponentDeps()));
    TestStreams streams;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 10001}}), 0), IsOk());
    EXPECT_EQ(buffer->count(), capacity) << type;
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(4, 0));
    EXPECT_EQ(batch.spec().Find("weight").has_value(), type == std::string("advanced")) << type;
  }
  EXPECT_EQ(BufferConfig().type(), "naive");
}

TEST(AdvancedBufferFactory, PassesEverySettingOn) {
  AdvancedBufferConfig params;
  params.set_alpha(1);
  params.set_beta(0.5);
  params.set_anneal_step(2);
  params.set_max_use(1);
  params.set_max_staleness(10);
  BufferConfig config = With("advanced", params);
  config.set_replay_buffer_size(4);
  config.set_nstep(2);
  config.set_discount_factor(0.5);
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(config, ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 8}}), 0), IsOk());  // collect_iter 4 to 7 stay.
  EXPECT_EQ(buffer->count(), 4);
  EXPECT_THAT(buffer->Update({{3, 0, 0, 0}, {5, 4, 6, 7}, {1, 0, 2, 3}}), IsOk());
  // Row 5 has all but 1e-5 of the weight. beta is 0.5, the smallest priority 1e-5.
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_EQ(batch.column<int64_t>("replay_unique_id")[0], 5);
  EXPECT_EQ(batch.column<float>("discount")[0], 0.25f);
  EXPECT_NEAR(batch.column<float>("weight")[0], std::sqrt(1e-5 / 3), 1e-6);
  EXPECT_EQ(buffer->count(), 3);  // max_use
  // Rows 4 and 6 are stale at iteration 16.
  DING_ASSERT_OK_AND_ASSIGN(const Batch last, buffer->Sample(1, 16));
  EXPECT_EQ(last.column<int64_t>("replay_unique_id")[0], 7);
}

TEST(AdvancedBufferFactory, StatisticsGoToTheSinkOfTheRun) {
  AdvancedBufferConfig params;
  params.mutable_monitor()->mutable_sampled_data_attr()->set_average_range(1);
  params.mutable_monitor()->mutable_sampled_data_attr()->set_print_freq(2);
  const std::shared_ptr<RecordingSink> sink = ExpectThruputReport(With("advanced", params));
  // Draws 0 and 2, a window of one each.
  const std::vector<double> use_max = sink->ValuesOf("replay_iter/use_max");
  EXPECT_THAT(use_max, ElementsAre(1, 3));
  EXPECT_THAT(sink->ValuesOf("replay_iter/use_avg"), ElementsAre(1, 3));
}

absl::StatusOr<std::unique_ptr<IBuffer>> MakeDeque(const DequeBufferConfig& params) {
  BufferConfig config = With("deque", params);
  config.set_replay_buffer_size(4);
  return create_buffer(config, ComponentDeps());
}

TEST(DequeBufferFactory, MaxUseHoldsWithoutPriorities) {
  DequeBufferConfig params;
  params.set_max_use(1);
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, MakeDeque(params));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 4}}), 0), IsOk());
  // Priorities are of no account.
  EXPECT_THAT(buffer->Update({{900, 1, 1, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}}), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_THAT(batch.column<float>("weight"), Each(1.0f));
  EXPECT_EQ(buffer->count(), 3);
}

TEST(DequeBufferFactory, PrioritiesAreLimitedAndWeightsOnlyOnRequest) {
  DequeBufferConfig params;
  params.set_priority(true);
  params.set_priority_power_factor(1);
  params.set_is_weight_power_factor(1);
  params.set_priority_max_limit(3);
  for (const bool weights : {false, true}) {
    params.set_priority_is_weight(weights);
    DING_ASSERT_OK_AND_ASSIGN(const auto buffer, MakeDeque(params));
    TestStreams streams;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 4}}), 0), IsOk());
    EXPECT_THAT(buffer->Update({{900, 3, 1, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}}), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(4, 0));
    for (int64_t i = 0; i < batch.rows(); ++i) {
      const bool limited = batch.column<int64_t>("replay_unique_id")[i] < 2;
      EXPECT_NEAR(batch.column<float>("priority")[i], limited ? 3 : 1, 1e-3);
      EXPECT_NEAR(batch.column<float>("weight")[i], limited && weights ? 1.0 / 3 : 1, 1e-3);
    }
    EXPECT_THAT(buffer->Update({{std::nanf("")}, {0}, {0}}), IsInvalid());
    EXPECT_THAT(buffer->Update({{INFINITY}, {0}, {0}}), IsInvalid());
  }
}

TEST(ElasticBufferFactory, TheWindowGoesInAStraightLine) {
  ElasticBufferConfig params;
  params.set_window_start(10);
  params.set_window_end(20);
  params.set_decay_envsteps(100);
  BufferConfig config = With("elastic", params);
  config.set_replay_buffer_size(50);
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(config, ComponentDeps()));
  TestStreams streams;
  const auto window_at = [&](int64_t envstep) {
    EXPECT_THAT(buffer->Push(streams.Make({{0, 50}}), envstep), IsOk());
    return buffer->count();
  };
  EXPECT_EQ(window_at(0), 10);
  EXPECT_EQ(window_at(50), 15);
  EXPECT_EQ(window_at(100), 20);
  EXPECT_EQ(window_at(1000), 20);
}

TEST(ElasticBufferFactory, TheDefaultWindowGrowsToTheCapacity) {
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(Plain("elastic"), ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 12000}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 1000);
  EXPECT_THAT(buffer->Push(streams.Make({{0, 1}}), 100000), IsOk());
  EXPECT_EQ(buffer->count(), 10000);
}

TEST(NaiveBufferFactory, PassesEverySettingOn) {
  BufferConfig config;
  config.set_replay_buffer_size(4);
  config.set_nstep(2);
  config.set_discount_factor(0.5);
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(config, ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 9}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 4);
  SampleOptions options;
  options.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch last, buffer->Sample(1, 0, options));
  EXPECT_EQ(last.column<float>("discount")[0], 0.5f);
  DING_ASSERT_OK_AND_ASSIGN(const Batch all, buffer->Sample(4, 0));
  EXPECT_THAT(all.column<float>("discount"), Contains(0.25f));
}

TEST(NaiveBufferFactory, SeedAndNameChooseTheDraws) {
  const auto draw = [](uint64_t seed, const std::string& name) {
    ComponentDeps deps;
    deps.seed = seed;
    deps.name = name;
    const std::unique_ptr<IBuffer> buffer = create_buffer(BufferConfig(), deps).value();
    TestStreams streams;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 1000}}), 0), IsOk());
    const Batch batch = buffer->Sample(8, 0).value();
    const auto ids = batch.column<int64_t>("replay_unique_id");
    return std::vector<int64_t>(ids.begin(), ids.end());
  };
  EXPECT_EQ(draw(1, "a"), draw(1, "a"));
  EXPECT_NE(draw(1, "a"), draw(2, "a"));
  EXPECT_NE(draw(1, "a"), draw(1, "b"));
}

TEST(NaiveBufferFactory, AnUnknownTypeListsTheKnownOnes) {
  BufferConfig config;
  config.set_type("bigger");
  EXPECT_THAT(create_buffer(config, ComponentDeps()), IsNotFound("'bigger'", "naive"));
}

TEST(SequenceBufferFactory, TheDefaultsMakeBuffers) {
  for (const char* type : {"sequence", "episode"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(Plain(type), ComponentDeps()));
    TestStreams streams;
    EXPECT_THAT(buffer->Push(streams.Make({{0, 80, SegmentEnd::kTerminated}}), 0), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
    EXPECT_EQ(batch.rows(), 80);
  }
}

TEST(SequenceBufferFactory, PassesEverySettingOn) {
  SequenceBufferConfig params;
  params.set_unroll_len(4);
  params.set_burn_in(2);
  params.set_overlap(1);
  params.set_padding(true);
  BufferConfig config = With("sequence", params);
  config.set_replay_buffer_size(5);
  config.set_discount_factor(0.5);
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, create_buffer(config, ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 8, SegmentEnd::kTruncated}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 2);  // Rows 3 and 6 of 3 to 7.
  SampleOptions options;
  options.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, options));
  EXPECT_THAT(batch.column<int64_t>("replay_unique_id"), ElementsAre(6, 7, 7, 7));
  EXPECT_THAT(batch.column<uint8_t>("burn_in"), ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(batch.column<float>("discount")[0], 0.5f);
  EXPECT_FALSE(batch.spec().Find("is_first").has_value());

  params.set_cross_episodes(true);
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const auto across, create_buffer(config, ComponentDeps()));
  EXPECT_THAT(across->Push(streams.Make({{1, 3, SegmentEnd::kTruncated}, {1, 1}}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch rows, across->Sample(1, 0));
  EXPECT_THAT(rows.column<uint8_t>("is_first"), ElementsAre(1, 0, 0, 1));
}

TEST(SequenceBufferFactory, PassesTheSettingsOfPrioritiesOn) {
  SequenceBufferConfig params;
  params.set_unroll_len(2);
  params.mutable_priority()->set_alpha(0.5);
  params.mutable_priority()->set_beta(0.5);
  params.mutable_priority()->set_anneal_step(1);
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer,
                            create_buffer(With("sequence", params), ComponentDeps()));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsOk());
  EXPECT_THAT(buffer->Update({{15.99999f}, {1}, {1}}), IsOk());
  EXPECT_THAT(buffer->Update({{0.99999f}, {0}, {0}}), IsOk());
  SampleOptions newest;
  newest.newest = 1;
  for (const float weight :
       {0.5f, 0.25f}) {  // (16^-0.5)^0.5, and beta is 1 from the second draw on.
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, newest));
    EXPECT_NEAR(batch.column<float>("weight")[1], weight, 1e-5);
  }
}

}  // namespace
}  // namespace ding
