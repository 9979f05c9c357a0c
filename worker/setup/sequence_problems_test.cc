#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/setup_problems.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ExperimentConfig Config(absl::string_view buffer) {
  ExperimentConfig config;
  config.mutable_policy()->set_type("mine");
  config.mutable_policy()->mutable_other()->mutable_replay_buffer()->set_type(std::string(buffer));
  return config;
}

ExperimentConfig WithParams(const SequenceBufferConfig& params) {
  ExperimentConfig config = Config("sequence");
  config.mutable_policy()->mutable_other()->mutable_replay_buffer()->mutable_params()->PackFrom(
      params);
  return config;
}

LearnAttributes OfRows() { return {}; }
LearnAttributes OfSequences() {
  LearnAttributes attributes;
  attributes.sequences = true;
  return attributes;
}

// The problems for an env without a limit of steps.
std::vector<std::string> Find(const ExperimentConfig& config, const LearnAttributes& policy,
                              bool draws_sequences) {
  return FindSequenceProblems(config, policy, draws_sequences, /*max_episode_steps=*/0);
}

TEST(SequenceProblemsTest, APolicyOfSequencesNeedsABufferThatDrawsThem) {
  EXPECT_THAT(Find(Config("naive"), OfSequences(), /*draws_sequences=*/false),
              ElementsAre(AllOf(HasSubstr("policy.other.replay_buffer.type is 'naive'"),
                                HasSubstr("policy 'mine' learns from sequences"),
                                HasSubstr("expected 'sequence', or 'episode'"))));
  EXPECT_THAT(Find(Config("sequence"), OfSequences(), true), IsEmpty());
  EXPECT_THAT(Find(Config("episode"), OfSequences(), true), IsEmpty());
  EXPECT_THAT(Find(Config("of_ones_own"), OfSequences(), true), IsEmpty());
}

TEST(SequenceProblemsTest, ASequenceIsASample) {
  SequenceBufferConfig params;
  params.set_unroll_len(20);
  params.set_burn_in(5);
  params.set_padding(true);
  ExperimentConfig config = WithParams(params);
  EXPECT_THAT(Find(config, OfSequences(), true), IsEmpty()) << "n_sample is rows";
  config.mutable_policy()->mutable_collect()->set_unroll_len(20);
  EXPECT_THAT(Find(config, OfSequences(), true), IsEmpty());
  config.mutable_policy()->mutable_collect()->set_unroll_len(15);
  EXPECT_THAT(Find(config, OfSequences(), true),
              ElementsAre(AllOf(HasSubstr("policy.other.replay_buffer.params.unroll_len is 20"),
                                HasSubstr("policy.collect.unroll_len is 15"))));
  BufferConfig& buffer = *config.mutable_policy()->mutable_other()->mutable_replay_buffer();
  buffer.set_type("of_ones_own");
  EXPECT_THAT(Find(config, OfSequences(), true), SizeIs(1)) << "it takes the same params";
  buffer.set_type("episode");
  buffer.clear_params();
  EXPECT_THAT(Find(config, OfSequences(), true), IsEmpty());
}

TEST(SequenceProblemsTest, ASequenceIsNotLongerThanAnyEpisode) {
  SequenceBufferConfig params;
  params.set_unroll_len(501);
  const auto find = [&params](int64_t max_episode_steps) {
    return FindSequenceProblems(WithParams(params), OfSequences(), true, max_episode_steps);
  };
  EXPECT_THAT(find(500),
              ElementsAre(HasSubstr("params.unroll_len is 501, but an episode of the env "
                                    "ends after 500 steps at the latest")));
  EXPECT_THAT(find(501), IsEmpty());
  EXPECT_THAT(find(0), IsEmpty()) << "there is no limit";
  params.set_padding(true);
  EXPECT_THAT(find(500), IsEmpty());
  params.set_padding(false);
  params.set_cross_episodes(true);
  EXPECT_THAT(find(500), IsEmpty());
}

TEST(SequenceProblemsTest, ASampleThatIsNotFilledUpIsNotLongerThanAnyEpisode) {
  ExperimentConfig config = Config("naive");
  CollectSection& collect = *config.mutable_policy()->mutable_collect();
  collect.set_unroll_len(501);
  EXPECT_THAT(FindSampleProblems(config, 500), IsEmpty()) << "it is padded";
  collect.set_last_sample(PolicyConfig::DROP);
  EXPECT_THAT(FindSampleProblems(config, 500),
              ElementsAre(AllOf(HasSubstr("policy.collect.unroll_len is 501, but an episode of the "
                                          "env ends after 500 steps at the latest"),
                                HasSubstr("last_sample: NULL_PADDING"))));
  EXPECT_THAT(FindSampleProblems(config, 501), IsEmpty());
  EXPECT_THAT(FindSampleProblems(config, 0), IsEmpty()) << "there is no limit";
}

TEST(SequenceProblemsTest, APolicyOfRowsGetsNoRowsThatWereAdded) {
  EXPECT_THAT(Find(Config("naive"), OfRows(), false), IsEmpty());
  SequenceBufferConfig params;
  params.set_unroll_len(20);
  EXPECT_THAT(Find(WithParams(params), OfRows(), true), IsEmpty());
  params.set_padding(true);
  params.set_burn_in(5);
  EXPECT_THAT(Find(WithParams(params), OfRows(), true),
              ElementsAre(AllOf(HasSubstr("params.padding is true, but policy 'mine' learns"),
                                HasSubstr("expected false")),
                          AllOf(HasSubstr("params.burn_in is 5"), HasSubstr("expected 0"))));
  EXPECT_THAT(Find(Config("episode"), OfRows(), true),
              ElementsAre(AllOf(HasSubstr("replay_buffer.type is 'episode', which draws sequences"),
                                HasSubstr("expected a type that draws single rows"))));
}

}  // namespace
}  // namespace ding
