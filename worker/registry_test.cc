// The modules of a serial program. tools/presubmit checks that no registry is missing in its list,
// list_registry_test checks the form of the list, and config_page_test the help of most names.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/worker/serial_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(RegistryTest, ListsEveryRegistryWithHelpForWhatIsLinked) {
  std::vector<std::string> kinds;  // each with its names
  for (absl::string_view line : absl::StrSplit(ListSerialModules(), '\n', absl::SkipEmpty())) {
    if (!absl::ConsumePrefix(&line, "  ")) {
      kinds.emplace_back(line);
    } else if (line[0] != ' ') {  // Other lines go on with the help of the name above.
      const std::pair<std::string, std::string> name =
          absl::StrSplit(line, absl::MaxSplits("  ", 1));
      absl::StrAppend(&kinds.back(), " ", name.first);
      EXPECT_NE(name.second.find_first_not_of(' '), std::string::npos)
          << name.first << " has no help";
    }
  }
  EXPECT_THAT(
      kinds,
      testing::ElementsAre(
          "env: Acrobot-v1 CartPole-v0 CartPole-v0-masked-velocity CartPole-v1 "
          "CartPole-v1-masked-velocity ConnectFour ConnectFour-vs-random ConnectFour-vs-search "
          "MountainCar-v0 MountainCarContinuous-v0 Orchard-v0 Orchard-v0-stack4 Pendulum-v1 "
          "Pendulum-v1-masked-velocity PointMaze-v0 ReachGoal-v0 TicTacToe TicTacToe-vs-perfect "
          "TicTacToe-vs-random gymnasium pettingzoo",
          "env group: gymnasium pettingzoo",
          "env wrapper: action_repeat channels_first clip_action crop discretize_action "
          "episodic_life flatten frame_stack grayscale mask_fields no_op_starts "
          "normalize_observation normalize_reward one_hot record_video rescale_action resize "
          "reward_clip reward_scale sticky_actions time_left time_limit",
          "env manager: async_subprocess async_thread base subprocess",
          "policy: a2c bc c51 cql ddpg discrete_sac dqn impala iql iqn ppo qrdqn r2d2 rainbow "
          "random sac td3 td3bc",
          "defaults of policy: a2c bc c51 cql ddpg discrete_sac dqn impala iql iqn ppo qrdqn r2d2 "
          "rainbow sac td3 td3bc",
          "network: mlp rnn", "loss: none in this program",
          "schedule: constant cosine exponential linear step warm_up",
          "actor: a2c bc c51 cql ddpg discrete_sac dqn impala iql iqn ppo qrdqn r2d2 rainbow sac "
          "td3 td3bc",
          "buffer: advanced deque elastic episode hindsight naive sequence", "selector: uniform",
          "remover: none in this program", "serial collector: episode sample",
          "battle collector: episode_1v1 sample_1v1", "reward shaping: none in this program",
          "serial evaluator: interaction", "battle evaluator: battle_interaction",
          "metric evaluator: metric", "metric: accuracy action_mse", "learner: base",
          "learner hook: load_ckpt log_reduce log_show save_ckpt save_ckpt_seconds",
          "stopper: no_improvement value_reached wall_clock", "sink: json_lines mlflow",
          "video format: gif"));
}

}  // namespace
}  // namespace ding
