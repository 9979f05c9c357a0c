#include <string>
#include <vector>

#include "ding_worker/data/items.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/parallel_collect.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Sequences of 20 rows, of which 5 are shared.
SequenceBufferConfig Params() {
  SequenceBufferConfig params;
  params.set_unroll_len(20);
  params.set_overlap(5);
  params.set_burn_in(4);
  return params;
}

BufferConfig Buffer(const SequenceBufferConfig& params) {
  BufferConfig config;
  config.set_type("sequence");
  config.set_replay_buffer_size(3000);
  config.mutable_params()->PackFrom(params);
  return config;
}

ExperimentConfig Experiment(const SequenceBufferConfig& params, int64_t n_sample) {
  ExperimentConfig config;
  *config.mutable_policy()->mutable_other()->mutable_replay_buffer() = Buffer(params);
  config.mutable_env()->set_collector_env_num(1);
  config.mutable_policy()->mutable_collect()->set_n_sample(n_sample);
  return config;
}

std::vector<std::string> Problems(const ExperimentConfig& config, bool plays_games = false) {
  std::vector<std::string> problems;
  AppendItemBufferProblems(config, plays_games, &problems);
  return problems;
}

TEST(ItemBufferTest, OtherTypesStayAsTheyAreAndHaveAnItemForEachRow) {
  BufferConfig config;
  config.set_type("advanced");
  config.set_replay_buffer_size(3000);
  EXPECT_FALSE(HasItemsOfSequences(config));
  EXPECT_EQ(ItemBufferConfig(config).SerializeAsString(), config.SerializeAsString());
  EXPECT_EQ(ItemSequencesOf(config).length, 1);
  EXPECT_EQ(ItemSequencesOf(config).period(), 1);
}

TEST(ItemBufferTest, SequencesAreAsTheConfigSays) {
  SequenceBufferConfig params = Params();
  params.set_padding(true);
  const ItemSequences sequences = ItemSequencesOf(Buffer(params));
  EXPECT_EQ(sequences.length, 20);
  EXPECT_EQ(sequences.overlap, 5);
  EXPECT_EQ(sequences.burn_in, 4);
  EXPECT_TRUE(sequences.padding);
  params.clear_overlap();
  EXPECT_EQ(ItemSequencesOf(Buffer(params)).period(), 1);
}

TEST(ItemBufferTest, ACapacityInRowsBecomesOneInItems) {
  const BufferConfig items = ItemBufferConfig(Buffer(Params()));
  EXPECT_EQ(items.type(), "naive");
  EXPECT_EQ(items.replay_buffer_size(), 200);
  EXPECT_FALSE(items.has_params());
  BufferConfig config = Buffer(Params());
  config.set_replay_buffer_size(20);
  EXPECT_EQ(ItemBufferConfig(config).replay_buffer_size(), 1);
  config.set_replay_buffer_bytes(5000);
  EXPECT_EQ(ItemBufferConfig(config).replay_buffer_bytes(), 5000);
}

TEST(ItemBufferTest, PrioritiesAreThoseOfAnAdvancedBuffer) {
  SequenceBufferConfig params = Params();
  params.mutable_priority()->set_alpha(0.9);
  params.mutable_priority()->set_beta(0.3);
  params.mutable_priority()->set_anneal_step(77);
  const BufferConfig items = ItemBufferConfig(Buffer(params));
  EXPECT_EQ(items.type(), "advanced");
  EXPECT_EQ(items.replay_buffer_size(), 200);
  AdvancedBufferConfig priority;
  ASSERT_TRUE(items.params().UnpackTo(&priority));
  EXPECT_EQ(priority.alpha(), 0.9);
  EXPECT_EQ(priority.beta(), 0.3);
  EXPECT_EQ(priority.anneal_step(), 77);
}

TEST(ItemBufferTest, RefusesSequencesThatAParallelRunCannotCut) {
  EXPECT_THAT(Problems(Experiment(Params(), 20)), IsEmpty());
  EXPECT_THAT(
      Problems(Experiment(Params(), 19)),
      ElementsAre(AllOf(HasSubstr("policy.collect.n_sample is 19"), HasSubstr("have 20 rows"))));
  EXPECT_THAT(Problems(Experiment(Params(), 20), /*plays_games=*/true),
              ElementsAre(HasSubstr("a league's games")));
  SequenceBufferConfig params = Params();
  params.set_padding(true);
  EXPECT_THAT(Problems(Experiment(params, 19)), IsEmpty());
  params.set_cross_episodes(true);
  EXPECT_THAT(Problems(Experiment(params, 20)),
              ElementsAre(HasSubstr("params.cross_episodes is true")));
  params.set_overlap(20);
  EXPECT_THAT(Problems(Experiment(params, 20)), ElementsAre(HasSubstr("overlap is 20")));
}

BufferConfig Episodes() {
  BufferConfig config;
  config.set_type("episode");
  config.set_replay_buffer_size(3000);
  return config;
}

TEST(ItemBufferTest, AnEpisodeIsOneItem) {
  EXPECT_TRUE(HasItemsOfSequences(Episodes()));
  const ItemSequences episodes = ItemSequencesOf(Episodes());
  EXPECT_TRUE(episodes.whole_episodes);
  EXPECT_FALSE(episodes.single_rows());
  EXPECT_EQ(episodes.period(), 1) << "random_collect_size counts items";
  EXPECT_FALSE(ItemSequencesOf(Buffer(Params())).whole_episodes);
  EXPECT_EQ(ItemBufferConfig(Episodes()).SerializeAsString(), Episodes().SerializeAsString());
}

TEST(ItemBufferTest, RefusesWholeEpisodesThatAreNotCollected) {
  ExperimentConfig config;
  *config.mutable_policy()->mutable_other()->mutable_replay_buffer() = Episodes();
  config.mutable_policy()->mutable_collect()->set_n_sample(40);
  EXPECT_THAT(Problems(config),
              ElementsAre(AllOf(HasSubstr("policy.collect.n_sample is 40"),
                                HasSubstr("expected policy.collect.n_episode in its place"))));
  config.mutable_policy()->mutable_collect()->set_n_episode(2);
  EXPECT_THAT(Problems(config), IsEmpty());
  EXPECT_THAT(Problems(config, /*plays_games=*/true),
              ElementsAre(AllOf(HasSubstr(".type is 'episode'"), HasSubstr("a league's games"))));
  config.mutable_policy()->mutable_other()->mutable_replay_buffer()->mutable_params()->PackFrom(
      Params());
  EXPECT_THAT(Problems(config), ElementsAre(HasSubstr("params")));
}

}  // namespace
}  // namespace ding
