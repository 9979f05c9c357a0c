// Measures training by worker/configs/cartpole_dqn.textproto: its parts, and the whole program.
//   Collect            SampleSerialCollector, 8 CartPoles, the DQN network: a vector step as 8 rows
//   Train              a draw of 64 rows from the buffer, and BaseLearner::Train, double DQN
//   Sample, Push       the buffer's part of a round
//   Run                the program //worker:serial from start to end, with its files, for 5 seeds
//   RunBaseline           as many rounds, updates and steps of evaluations by its parts, without log,
//                      metrics, checkpoints and the start of a process
//   ProcessStart       the program listing its modules
//   ProcessStartFloor  /bin/true
// The working folder must be the root of the checkout. The floors of Collect and Train are in
// tools/floors.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/serial_registry.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/testing/benchmark_parts.h"

extern char** environ;

namespace ding {
namespace {

constexpr int kEnvs = 8;
constexpr int64_t kBatch = 64;
constexpr int64_t kBufferRows = 20000;

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

// Returns the rows of one round; the exploration rate has hardly any effect on their cost.
SegmentBatch CollectOnce(SerialPipeline* pipeline) {
  CollectOptions options;
  options.policy_settings = {{"eps", 0.1}};
  absl::StatusOr<SegmentBatch> data = pipeline->collector()->Collect(options);
  Check(data.status());
  return *std::move(data);
}

void TrainOnce(SerialPipeline* pipeline) {
  const absl::StatusOr<Batch> batch =
      pipeline->buffer()->Sample(kBatch, pipeline->learner()->train_iter());
  Check(batch.status());
  Check(pipeline->learner()->Train(*batch, pipeline->collector()->envstep()));
}

void BM_Collect(benchmark::State& state) {
  CartPolePipeline pipeline(LoadCartPoleConfig());
  for (auto _ : state) {
    benchmark::DoNotOptimize(CollectOnce(pipeline.get()).segments.data());
  }
  state.SetItemsProcessed(state.iterations() * kEnvs);
}
BENCHMARK(BM_Collect);

void BM_Train(benchmark::State& state) {
  CartPolePipeline pipeline(LoadCartPoleConfig());
  pipeline.FillBuffer(kBufferRows);
  for (auto _ : state) TrainOnce(pipeline.get());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Train);

void BM_Sample(benchmark::State& state) {
  CartPolePipeline pipeline(LoadCartPoleConfig());
  pipeline.FillBuffer(kBufferRows);
  for (auto _ : state) benchmark::DoNotOptimize(pipeline->buffer()->Sample(kBatch, 0).value());
}
BENCHMARK(BM_Sample);

void BM_Push(benchmark::State& state) {
  CartPolePipeline pipeline(LoadCartPoleConfig());
  pipeline.FillBuffer(kBufferRows);
  SegmentBatch data = CollectOnce(pipeline.get());
  for (auto _ : state) {
    Check(pipeline->buffer()->Push(data, 0));
    for (Segment& segment : data.segments) segment.first_step += segment.length;
  }
  state.SetItemsProcessed(state.iterations() * kEnvs);
}
BENCHMARK(BM_Push);

// How often the whole run does each of its parts.
struct RunCounts {
  int64_t rounds = 0;
  int64_t updates = 0;
  int64_t eval_steps = 0;  // steps of one env
};

// The whole run is measured for several seeds, one after the other, since it is a matter of luck
// how many steps it takes to solve CartPole: from 1,000 to 5,000.
constexpr uint64_t kRunSeeds = 5;

// Both runs stop at the evaluation that reaches the stop value, without the 100 further episodes
// that confirm it: the floor has no counterpart of them.
constexpr char kWithoutConfirmation[] = "--set=env.n_confirm_episode=0";

// Counts by doing a run with the same seed in this process, which takes the same course.
RunCounts CountRun(uint64_t seed) {
  const auto sink = std::make_shared<RecordingSink>();
  ExperimentConfig config = LoadCartPoleConfig();
  config.set_seed(seed);
  config.mutable_env()->set_n_confirm_episode(0);
  CartPolePipeline pipeline(config, sink);
  SerialResult result;
  Check(pipeline->Run(&result));
  RunCounts counts;
  counts.rounds = result.env_step / kEnvs;
  counts.updates = result.train_iter;
  for (const double steps : sink->ValuesOf("evaluator_step/envstep_count")) {
    counts.eval_steps += static_cast<int64_t>(steps);
  }
  DING_CHECK(counts.eval_steps > 0) << "the evaluator reported no steps";
  return counts;
}

// Makes the vector steps of evaluations.
class EvaluationSteps {
 public:
  explicit EvaluationSteps(const ExperimentConfig& config)
      : envs_(*MakeEnvManager(config, config.env().evaluator_env_num(), Clock::Real())),
        policy_(*create_policy(MakePolicyConfig(config),
                               MakePolicyContext(config, envs_->env_spec(), PolicyModes()))),
        actions_(*BatchBuilder::Create(envs_->env_spec().action, envs_->env_num())) {
    Check(envs_->Launch());
  }

  // Steps the envs until they have made `steps` steps together.
  void Run(int64_t steps) {
    while (steps > 0) {
      const ReadyObs ready = envs_->ready_obs();
      Check(policy_->eval_mode()->Forward(ready.obs, ready.env_ids, {}, actions_.view()));
      Check(envs_->Step(ready.env_ids, actions_.view()).status());
      steps -= static_cast<int64_t>(ready.env_ids.size());
    }
  }

 private:
  const std::unique_ptr<EnvManager> envs_;
  const std::unique_ptr<Policy> policy_;
  const BatchBuilder actions_;
};

void RunBare(const ExperimentConfig& config, const RunCounts& counts) {
  CartPolePipeline pipeline(config);
  EvaluationSteps evaluation(config);
  pipeline.FillBuffer(kBatch);  // Then the first round can train.
  int64_t updates = 0;
  for (int64_t round = 1; round <= counts.rounds; ++round) {
    Check(pipeline->buffer()->Push(CollectOnce(pipeline.get()), 0));
    for (; updates < counts.updates * round / counts.rounds; ++updates) {
      TrainOnce(pipeline.get());
    }
  }
  evaluation.Run(counts.eval_steps);
}

void BM_RunBaseline(benchmark::State& state) {
  static const auto* const runs = [] {
    auto* counts = new std::vector<RunCounts>();
    for (uint64_t seed = 0; seed < kRunSeeds; ++seed) counts->push_back(CountRun(seed));
    return counts;
  }();
  const ExperimentConfig config = LoadCartPoleConfig();
  for (auto _ : state) {
    for (const RunCounts& counts : *runs) RunBare(config, counts);
  }
}

// Path of the serial program, which is in the same folder as this program.
std::string SerialProgram() {
  std::array<char, PATH_MAX> path;
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  DING_CHECK(size > 0) << "this program has no path";
  const std::string self(path.data(), static_cast<size_t>(size));
  return JoinPath(self.substr(0, self.rfind('/')), "serial");
}

// Runs a program to its end, and discards its output.
void RunProgram(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  DING_CHECK(error == 0) << argv[0] << " cannot be started: error " << error;
  int status = 0;
  DING_CHECK(waitpid(pid, &status, 0) == pid) << argv[0] << " is gone";
  DING_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0) << argv[0] << " failed: " << status;
}

void BM_Run(benchmark::State& state) {
  const char* const parent = std::getenv("TEST_TMPDIR");
  std::string folder = JoinPath(parent == nullptr ? "/tmp" : parent, "run_XXXXXX");
  DING_CHECK(mkdtemp(folder.data()) != nullptr) << "no temporary folder " << folder;
  const std::string exp_dir = JoinPath(folder, "run");
  for (auto _ : state) {
    for (uint64_t seed = 0; seed < kRunSeeds; ++seed) {
      RunProgram({SerialProgram(), absl::StrCat("--config=", kCartPoleConfig),
                  absl::StrCat("--exp_dir=", exp_dir), absl::StrCat("--seed=", seed),
                  kWithoutConfirmation});
      state.PauseTiming();
      Check(RemoveRecursively(exp_dir));
      state.ResumeTiming();
    }
  }
  Check(RemoveRecursively(folder));
  state.SetLabel("aim=0.77");
}
BENCHMARK(BM_Run)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_RunBaseline)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_ProcessStart(benchmark::State& state) {
  for (auto _ : state) RunProgram({SerialProgram(), "--list_modules"});
  state.SetLabel("aim=50ms");
}
BENCHMARK(BM_ProcessStart)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_ProcessStartFloor(benchmark::State& state) {
  for (auto _ : state) RunProgram({"/bin/true"});
}
BENCHMARK(BM_ProcessStartFloor)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ding
