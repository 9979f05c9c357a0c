// The list of modules of a serial program. tools/presubmit checks that no registry is missing in
// it.
#include "ding_worker/worker/serial_registry.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(RegistryTest, ListsEveryRegistryWithHelpForWhatIsLinked) {
  EXPECT_EQ(ListSerialModules(), R"(env:
  Acrobot-v1                   swing the end of two links above a line: 3 torques, up to 500 steps
  CartPole-v0                  keep a pole upright on a cart: 2 actions, up to 200 steps
  CartPole-v0-masked-velocity  CartPole-v0 that shows positions only
  CartPole-v1                  keep a pole upright on a cart: 2 actions, up to 500 steps
  CartPole-v1-masked-velocity  CartPole-v1 that shows positions only
  ConnectFour                  Connect Four for two players [ding.BoardGameConfig]
  ConnectFour-vs-random        Connect Four for one player, against random moves
                               [ding.BoardGameConfig]
  ConnectFour-vs-search        Connect Four for one player, against a search of search_depth moves
                               [ding.BoardGameConfig]
  MountainCar-v0               rock a weak car up a hill: 3 actions, up to 200 steps
  MountainCarContinuous-v0     MountainCar with a continuous throttle; up to 999 steps
  Orchard-v0                   catch ripe fruit: picture uint8 [1, 10, 10], 3 actions, 104 steps
  Orchard-v0-stack4            Orchard-v0 with the last four pictures, uint8 [4, 10, 10]
  Pendulum-v1                  swing a pendulum up and hold it: continuous torque, 200 steps
  Pendulum-v1-masked-velocity  Pendulum-v1 that shows the angle only
  PointMaze-v0                 move a point through a maze to a goal, rewarded only there: 150 steps
  ReachGoal-v0                 move a point to a goal, rewarded only there: 50 steps
  TicTacToe                    TicTacToe for two players [ding.BoardGameConfig]
  TicTacToe-vs-perfect         TicTacToe for one player, against perfect play [ding.BoardGameConfig]
  TicTacToe-vs-random          TicTacToe for one player, against random moves [ding.BoardGameConfig]
  gymnasium                    a Python env with Gymnasium's interface, by id or module:Class
                               [ding.GymnasiumConfig]
  pettingzoo                   a Python game with PettingZoo's parallel interface, by module:Class
                               [ding.GymnasiumConfig]
env group:
  gymnasium   a Python env with Gymnasium's interface, by id or module:Class [ding.GymnasiumConfig]
  pettingzoo  a Python game with PettingZoo's parallel interface, by module:Class
              [ding.GymnasiumConfig]
env wrapper:
  action_repeat          takes each action `count` times and sums the rewards
                         [ding.ActionRepeatConfig]
  channels_first         turns [height, width, channels] into [channels, height, width]
                         [ding.ChannelsFirstConfig]
  clip_action            clips actions to the bounds of the env [ding.ClipActionConfig]
  crop                   cuts a rectangle out of an image [ding.CropConfig]
  discretize_action      makes `bins` categories of each dimension of the action
                         [ding.DiscretizeActionConfig]
  episodic_life          ends an episode when a life is lost [ding.EpisodicLifeConfig]
  flatten                makes one float32 vector of all fields but the action mask
  frame_stack            shows the last `count` observations, which a buffer stores once each
                         [ding.FrameStackConfig]
  grayscale              makes one channel of red, green and blue [ding.GrayscaleConfig]
  mask_fields            removes fields of the observation [ding.MaskFieldsConfig]
  no_op_starts           begins an episode with a random number of steps of one action
                         [ding.NoOpStartsConfig]
  normalize_observation  normalizes a field by the mean and deviation of all envs so far
                         [ding.NormalizeObservationConfig]
  normalize_reward       divides rewards by the deviation of the return of all envs so far
                         [ding.NormalizeRewardConfig]
  one_hot                makes a float32 per category of a field of categories [ding.OneHotConfig]
  record_video           makes a video of each `every`-th episode of env 0 [ding.RecordVideoConfig]
  rescale_action         maps actions of [low, high] to the bounds of the env
                         [ding.RescaleActionConfig]
  resize                 resizes an image: each pixel is the mean of its area [ding.ResizeConfig]
  reward_clip            clips rewards to [low, high] [ding.RewardClipConfig]
  reward_scale           multiplies rewards by `scale` [ding.RewardScaleConfig]
  sticky_actions         takes the action before instead, with a probability
                         [ding.StickyActionsConfig]
  time_limit             truncates an episode after max_steps steps [ding.TimeLimitConfig]
env manager:
  async_subprocess  like subprocess, but a step waits for wait_num envs only
  async_thread      steps thread-safe envs in a pool of threads: for slower envs
  base              steps all envs in the caller's thread: for fast envs
  subprocess        steps envs in processes of their own, which may crash or hang
policy:
  a2c           A2C: on-policy, one step per collect; discrete and continuous actions
                [ding.A2cConfig]
  bc            behaviour cloning from a data set; discrete and continuous actions [ding.BcConfig]
  c51           C51: DQN on distributions of the return; discrete actions [ding.C51Config]
  cql           discrete CQL: DQN on recorded episodes, with a conservative penalty [ding.CqlConfig]
  ddpg          DDPG: one critic, deterministic actor; continuous actions [ding.DdpgConfig]
  discrete_sac  soft actor-critic: twin critics, learned temperature; discrete actions
                [ding.DiscreteSacConfig]
  dqn           DQN: double, dueling, n-step, priorities; discrete actions [ding.DqnConfig]
  impala        IMPALA: V-trace on sequences of a replay buffer; discrete and continuous actions
                [ding.ImpalaConfig]
  iql           implicit Q-learning on recorded episodes; continuous actions [ding.IqlConfig]
  iqn           IQN: DQN on quantiles of the return at random fractions; discrete actions
                [ding.IqnConfig]
  ppo           PPO: on-policy, clipped ratios, epochs of minibatches; discrete and continuous
                actions [ding.PpoConfig]
  qrdqn         QR-DQN: DQN on quantiles of the return; discrete actions [ding.QrdqnConfig]
  r2d2          R2D2: recurrent DQN on sequences; burn-in, value rescaling; discrete actions
                [ding.R2d2Config]
  rainbow       Rainbow: C51 with noisy layers, dueling, double, n-step, priorities
                [ding.RainbowConfig]
  random        uniformly random legal actions; does not learn, for tests and measurements
  sac           soft actor-critic: learned temperature, ensembles of critics; continuous actions
                [ding.SacConfig]
  td3           TD3: twin critics, delayed deterministic actor; continuous actions [ding.Td3Config]
  td3bc         TD3+BC: TD3 on recorded episodes, which also clones them; continuous actions
                [ding.Td3BcConfig]
network:
  mlp  fully connected layers, with kernels of our own; dueling heads
  rnn  the layers of mlp with an LSTM or a GRU between encoder and heads
schedule:
  constant     keeps its first value
  cosine       half a cosine: slow, fast, slow
  exponential  moves by equal factors
  linear       moves by equal amounts
  step         keeps its first value, then jumps to its end
  warm_up      rises by equal amounts from 0 to the value of the field
actor:
  a2c           the actor of an actor-critic
  bc            the network that imitates
  c51           the mean of the atoms
  cql           greedy by Q values
  ddpg          the tanh of the mean
  discrete_sac  the softmax of the logits
  dqn           epsilon-greedy by Q values
  impala        the actor of an actor-critic
  iql           the tanh of the mean
  iqn           the mean of the quantiles at the middles of equal parts
  ppo           the actor of an actor-critic
  qrdqn         the mean of the quantiles
  r2d2          epsilon-greedy by recurrent Q values
  rainbow       the mean of the atoms, without noise
  sac           a normal distribution that tanh squashes
  td3           the tanh of the mean
  td3bc         the tanh of the mean
buffer:
  advanced   transitions, drawn by priority; limits on use, staleness and rate
             [ding.AdvancedBufferConfig]
  deque      transitions, drawn uniformly or by priority; the settings of DI-engine's deque
             [ding.DequeBufferConfig]
  elastic    transitions, drawn uniformly from a window of the newest rows
             [ding.ElasticBufferConfig]
  episode    whole episodes, padded to the longest of a draw
  hindsight  transitions with goals in hindsight (HER), drawn uniformly [ding.HindsightBufferConfig]
  naive      transitions, drawn uniformly: for most off-policy algorithms
  sequence   sequences of consecutive rows of one stream, for recurrent policies
             [ding.SequenceBufferConfig]
selector:
  uniform  all that can be drawn is equally probable, whatever its priority
remover: none in this program
serial collector:
  episode  collects n_episode whole episodes; reward_shaping can change their rewards
           [ding.EpisodeCollectorParams]
  sample   collects n_sample rows; the next collect goes on with the episodes
battle collector:
  episode_1v1  collects n_episode whole episodes of a game [ding.BattleEpisodeCollectorParams]
  sample_1v1   collects n_sample rows of each player of a game [ding.BattleSampleCollectorParams]
reward shaping: none in this program
serial evaluator:
  interaction  mean return over n_episode episodes; can write videos
               [ding.InteractionEvaluatorParams]
battle evaluator:
  battle_interaction  mean return of player 0 over n_episode games between policies
metric evaluator:
  metric  mean of a metric, such as accuracy, over labelled data
metric:
  accuracy    share of the steps whose action is the recorded one; categories
  action_mse  mean squared distance of the action from the recorded one; boxes
learner:
  base  trains the policy on each batch, with hooks around each iteration
learner hook:
  load_ckpt          loads policy, optimizer and counters from the checkpoint at path
  log_reduce         replaces each reported scalar by its mean over the learners
  log_show           logs averages of the reported values every freq iterations
  save_ckpt          saves a checkpoint: every freq iterations, or once before or after the run
  save_ckpt_seconds  saves a checkpoint to resume from, whenever so many seconds have passed
stopper:
  no_improvement  ends the run when so many evaluations in a row were not better
                  [ding.NoImprovementParams]
  value_reached   ends the run when the mean return of an evaluation reaches a value
                  [ding.ValueReachedParams]
  wall_clock      ends the run when it has taken so many seconds [ding.WallClockParams]
sink:
  json_lines  JSON, a line per value, in log/<process>.jsonl of the run's folder
  mlflow      a run in MLflow's file store mlruns/, beside the run's folder [ding.MlflowSinkParams]
video format:
  gif  animated GIF: repeats without end, any browser shows it
)");
}

}  // namespace
}  // namespace ding
