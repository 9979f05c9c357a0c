// How the ends of episodes reach policies in runs of one process: last observations that allow no
// action, and players of a game that end before it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/game_envs.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Episodes of five steps, of which those with even seeds are truncated and the others terminate. No
// action is legal in the last observation.
class DeadEnds : public Env {
 public:
  static constexpr int64_t kSteps = 5;

  DeadEnds() {
    FieldSpec mask = Scalar(kActionMaskField, DType::kBool);
    mask.shape = {2};
    spec_.name = "DeadEnds";
    spec_.observation = *MakeSpec({Box("obs/place", {2}), mask});
    spec_.action = *MakeSpec({Discrete("action", 2)});
    spec_.max_episode_steps = kSteps;
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    step_ = 0;
    truncates_ = start.seed % 2 == 0;
    Show(obs);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& /*action*/, const RowRef& obs, StepResult* result) override {
    ++step_;
    Show(obs);
    result->reward = 1;
    (truncates_ ? result->truncated : result->terminated) = step_ == kSteps;
    return absl::OkStatus();
  }

 private:
  void Show(const RowRef& obs) const {
    obs.field<float>(0)[0] = static_cast<float>(step_) / kSteps;
    obs.field<float>(0)[1] = truncates_ ? 1 : 0;
    for (uint8_t& legal : obs.field<uint8_t>(1)) legal = step_ < kSteps ? 1 : 0;
  }

  EnvSpec spec_;
  int64_t step_ = 0;
  bool truncates_ = false;
};

class EpisodeEndsTest : public testing::Test {
 protected:
  EpisodeEndsTest()
      : dead_ends_(&EnvRegistry(), "dead_ends",
                   [](const EnvConfig&) -> absl::StatusOr<std::unique_ptr<Env>> {
                     return std::make_unique<DeadEnds>();
                   }),
        knockout_(&EnvRegistry(), "knockout",
                  [](const EnvConfig&) { return KnockoutEnv::Create(); }) {
    std::string folder = absl::StrCat(testing::TempDir(), "/episode_ends_XXXXXX");
    folder_ = mkdtemp(folder.data());
  }
  ~EpisodeEndsTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  absl::StatusOr<SerialResult> Run(const std::string& name, const std::string& config) {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig parsed, ParseExperimentConfig(config, "test", {}));
    SerialOptions options;
    options.exp_dir = JoinPath(folder_, name);
    DING_RETURN_IF_ERROR(CreateDirectories(options.exp_dir));
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<SerialPipeline> pipeline,
                          SerialPipeline::Create(parsed, options));
    SerialResult result;
    DING_RETURN_IF_ERROR(pipeline->Run(&result));
    return result;
  }
  // The rows that the replay buffer of a run has at its end.
  SegmentBatch RowsOf(const std::string& name) const {
    const std::optional<ResumePoint> point = *OpenNewestResumePoint(JoinPath(folder_, name));
    const std::unique_ptr<StateReader> buffer = *point->checkpoint.Component("replay_buffer");
    return *ReadSavedEpisodes(buffer.get());
  }

  ScopedRegistration<EnvCreator> dead_ends_;
  ScopedRegistration<EnvCreator> knockout_;
  std::string folder_;
};

struct PolicyCase {
  std::string type;
  std::string params;
  std::string rest;          // of the config of the policy
  std::string collect = "";  // of the config of its collector
};

std::vector<PolicyCase> Policies() {
  const std::string net = "encoder_hidden_size: [8]";
  const std::string dqn = absl::Substitute("dqn { model { $0 } }", net);
  const std::string actor_critic =
      absl::Substitute("actor_critic { model { $0 } critic { $0 } }", net);
  const std::string sequences = R"(other { replay_buffer { type: "sequence" replay_buffer_size: 400
      params { [type.googleapis.com/ding.SequenceBufferConfig] {
        unroll_len: 4 overlap: 0 cross_episodes: true } } } })";
  return {
      {"dqn", absl::Substitute("DqnConfig] { model { $0 } }", net), ""},
      {"dqn", absl::Substitute("DqnConfig] { model { $0 } }", net), "nstep: 3"},
      {"c51", absl::StrCat("C51Config] { ", dqn, " v_min: 0 v_max: 9 }"), ""},
      {"qrdqn", absl::StrCat("QrdqnConfig] { ", dqn, " }"), ""},
      {"iqn", absl::StrCat("IqnConfig] { ", dqn, " }"), ""},
      {"rainbow", absl::StrCat("RainbowConfig] { ", dqn, " v_min: 0 v_max: 9 }"), ""},
      {"r2d2",
       R"(R2d2Config] { dqn { model { type: "rnn" encoder_hidden_size: [8] recurrent { hidden_size: 8 } } } })",
       sequences, "unroll_len: 4"},
      {"discrete_sac", absl::Substitute("DiscreteSacConfig] { model { $0 } critic { $0 } }", net),
       ""},
      {"ppo", absl::StrCat("PpoConfig] { ", actor_critic, " }"), ""},
      {"a2c", absl::StrCat("A2cConfig] { ", actor_critic, " }"), ""},
      {"impala", absl::StrCat("ImpalaConfig] { ", actor_critic, " }"), sequences},
  };
}

TEST_F(EpisodeEndsTest, ALastObservationWithoutALegalActionEndsTheEpisodeForEveryPolicy) {
  int number = 0;
  for (const PolicyCase& policy : Policies()) {
    SCOPED_TRACE(absl::StrCat(policy.type, " ", policy.rest));
    const std::string name = absl::StrCat(policy.type, number++);
    const absl::StatusOr<SerialResult> result =
        Run(name, absl::Substitute(R"(
max_env_step: 400
env { type: "dead_ends" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  type: "$0"
  params { [type.googleapis.com/ding.$1 }
  learn { batch_size: 8 }
  collect { n_sample: 16 $3 }
  eval { evaluator { eval_freq: 100 } }
  $2
})",
                                   policy.type, policy.params, policy.rest, policy.collect));
    ASSERT_THAT(result, IsOk());
    EXPECT_GE(result->env_step, 400);
    if (policy.type != "dqn") continue;
    const SegmentBatch rows = RowsOf(name);
    std::map<float, int64_t> last_rows;  // by whether their env truncates
    for (size_t i = 0; i < rows.segments.size(); ++i) {
      const float place = rows.final_obs.column<float>("obs/place")[2 * i];
      // A saved buffer shows an episode that goes on as truncated.
      EXPECT_EQ(rows.segments[i].end == SegmentEnd::kTerminated, place == 1);
      ++last_rows[rows.final_obs.column<float>("obs/place")[2 * i + 1]];
    }
    EXPECT_EQ(last_rows.size(), 2) << "both kinds of episodes";
  }
}

constexpr char kGame[] = R"(
max_env_step: 600
env { type: "knockout" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  type: "$0"
  params { [type.googleapis.com/ding.$1 }
  learn { batch_size: 8 }
  collect { $2 }
  eval { evaluator { type: "battle_interaction" eval_freq: 100 } }
})";

TEST_F(EpisodeEndsTest, EachPlayerOfAGameHasOneLastRowInTheReplayBuffer) {
  for (const char* const collect : {R"(n_sample: 16 collector { type: "sample_1v1" })",
                                    R"(n_episode: 4 collector { type: "episode_1v1" })"}) {
    SCOPED_TRACE(collect);
    const std::string name = absl::StrCat("game_", std::string(collect).substr(0, 5));
    DING_ASSERT_OK_AND_ASSIGN(
        const SerialResult result,
        Run(name, absl::Substitute(kGame, "dqn",
                                   "DqnConfig] { model { encoder_hidden_size: [8] } }", collect)));
    EXPECT_GE(result.env_step, 600);
    EXPECT_LT(result.env_step, 700) << "steps of the game, not of its players";
    const SegmentBatch rows = RowsOf(name);
    std::map<int64_t, int64_t> ends;  // of each role
    for (size_t i = 0; i < rows.segments.size(); ++i) {
      const Segment& segment = rows.segments[i];
      const auto place = rows.final_obs.column<float>("obs/place").subspan(3 * i, 3);
      const auto role = static_cast<int64_t>(place[1]);
      const bool over = static_cast<int64_t>(place[0]) == KnockoutEnv::StepsOf(role);
      // A saved buffer shows an episode that goes on as truncated.
      EXPECT_EQ(segment.end == SegmentEnd::kTerminated, over && role == 1);
      EXPECT_LE(segment.length, KnockoutEnv::StepsOf(role));
      ends[role] += over ? 1 : 0;
      for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
        EXPECT_EQ(rows.rows.column<float>("obs/place")[3 * row + 2], 1) << "a row after the end";
      }
    }
    EXPECT_EQ(ends.size(), 3);
    for (const auto& [role, count] : ends) EXPECT_GT(count, 50) << "role " << role;
  }
}

TEST_F(EpisodeEndsTest, OnPolicyPoliciesLearnFromGamesWhosePlayersEndBeforeThem) {
  const char* const actor_critic =
      "actor_critic { model { encoder_hidden_size: [8] } critic { encoder_hidden_size: [8] } } }";
  for (const char* const collect : {R"(n_sample: 16 collector { type: "sample_1v1" })",
                                    R"(n_episode: 4 collector { type: "episode_1v1" })"}) {
    EXPECT_THAT(Run("ppo", absl::Substitute(kGame, "ppo",
                                            absl::StrCat("PpoConfig] { ", actor_critic), collect)),
                IsOk());
  }
}

}  // namespace
}  // namespace ding
