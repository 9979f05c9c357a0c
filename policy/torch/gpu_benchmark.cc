// Measures updates on a GPU for tools/gpu_check, which prints them beside the same loops in PyTorch
// (tools/gpu_check_torch.py). Without a GPU each has two rows, only to show that it runs:
//   Cnn/B      an update of dqn on B rows of four 84 x 84 frames, by the network of Mnih et al. 2015
//   Replay/B   the same, with a draw from a buffer before each update
//   Mlp/B      an update of dqn by four layers of 2048 on B rows of 128 numbers
//   Lstm/B     forward, backward and Adam of an LSTM of 512 on B sequences of 80 steps; the loss is
//              half the sum of squares
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/torch/torch_device.h"
#include "ding_worker/policy/torch/torch_models.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

constexpr int64_t kActions = 6;
constexpr int64_t kReplayRows = 10000;
constexpr int kWarmUp = 5;  // updates before the time is taken: the first ones load kernels

const char* Device() { return CountTorchGpus() > 0 ? "cuda:0" : "cpu"; }

int64_t Rows(int64_t rows) { return CountTorchGpus() > 0 ? rows : 2; }

FieldSpec Frames() {
  FieldSpec frames = Box("obs", {4, 84, 84});
  frames.dtype = DType::kUint8;
  return frames;
}

std::unique_ptr<Policy> MakeDqn(const SpecPtr& observation, absl::string_view model) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: 'dqn' params { [type.googleapis.com/ding.DqnConfig] { double_dqn: false "
                   "learning_rate: 1e-4 model { device: '",
                   Device(), "' ", model, " } } }"),
      &config));
  auto policy = create_policy(config, {observation, DiscreteAction(kActions), 0, PolicyModes()});
  DING_CHECK(policy.ok()) << policy.status();
  return *std::move(policy);
}

std::unique_ptr<Policy> MakeCnn() {
  return MakeDqn(*MakeSpec({Frames()}),
                 "type: 'torch_cnn' conv { channels: 32 kernel: 8 stride: 4 } "
                 "conv { channels: 64 kernel: 4 stride: 2 } conv { channels: 64 kernel: 3 } "
                 "encoder_hidden_size: 512 head_layer_num: 0");
}

void Update(Policy* policy, const Batch& batch, std::vector<LearnStep>* steps) {
  const absl::Status status = policy->learn_mode()->Forward(batch, {}, steps);
  DING_CHECK(status.ok()) << status;
}

void Measure(Policy* policy, const SpecPtr& observation, benchmark::State& state) {
  const Batch batch =
      MakeTransitionBatch(observation, DiscreteAction(kActions), Rows(state.range(0)), /*seed=*/1);
  std::vector<LearnStep> steps;
  for (int i = 0; i < kWarmUp; ++i) Update(policy, batch, &steps);
  for (auto _ : state) Update(policy, batch, &steps);
  state.SetItemsProcessed(state.iterations() * Rows(state.range(0)));
  state.SetLabel(Device());
}

void BM_Cnn(benchmark::State& state) { Measure(MakeCnn().get(), *MakeSpec({Frames()}), state); }

void BM_Mlp(benchmark::State& state) {
  const SpecPtr observation = VectorObservation(128);
  Measure(MakeDqn(observation,
                  "type: 'torch_mlp' encoder_hidden_size: [2048, 2048, 2048, 2048] "
                  "head_layer_num: 0")
              .get(),
          observation, state);
}

std::unique_ptr<NaiveReplayBuffer> FullBuffer() {
  NaiveReplayBuffer::Options options;
  const int64_t capacity = Rows(kReplayRows) + 1;  // the last one has no successor
  options.capacity_rows = capacity;
  auto buffer = NaiveReplayBuffer::Create(options);
  DING_CHECK(buffer.ok()) << buffer.status();
  const auto filled = [](const SpecPtr& spec, int64_t rows) {
    auto builder = BatchBuilder::Create(spec, rows);
    DING_CHECK(builder.ok()) << builder.status();
    for (int i = 0; i < spec->size(); ++i) {
      std::memset(builder->view().raw_column(i), i == 0 ? 100 : 0,
                  static_cast<size_t>(rows * spec->row_bytes(i)));
    }
    return std::move(*builder).Seal(rows);
  };
  SegmentBatch data;
  data.rows =
      filled(*MakeSpec({Frames(), Discrete("action", kActions), Scalar("reward", DType::kFloat32),
                        Scalar("collect_iter", DType::kInt64)}),
             capacity);
  data.segments = {{0, 0, 0, capacity, SegmentEnd::kCut}};
  data.final_obs = filled(*MakeSpec({Frames()}), 1);
  const absl::Status status = (*buffer)->Push(data, 0);
  DING_CHECK(status.ok()) << status;
  return *std::move(buffer);
}

void BM_Replay(benchmark::State& state) {
  const std::unique_ptr<NaiveReplayBuffer> buffer = FullBuffer();
  const std::unique_ptr<Policy> policy = MakeCnn();
  std::vector<LearnStep> steps;
  const auto update = [&] {
    const absl::StatusOr<Batch> batch = buffer->Sample(Rows(state.range(0)), 0);
    DING_CHECK(batch.ok()) << batch.status();
    Update(policy.get(), *batch, &steps);
  };
  for (int i = 0; i < kWarmUp; ++i) update();
  for (auto _ : state) update();
  state.SetItemsProcessed(state.iterations() * Rows(state.range(0)));
  state.SetLabel(Device());
}

void BM_Lstm(benchmark::State& state) {
  constexpr int64_t kLength = 80;
  RnnOptions options;
  options.hidden_size = 512;
  options.mlp.encoder_hidden_size = {512};
  options.mlp.head_layer_num = 0;
  const auto network = CreateTorchRnn(options, VectorObservation(64),
                                      *MakeSpec({Box("q", {kActions})}), 0, {Device()});
  DING_CHECK(network.ok()) << network.status();
  auto adam = GroupAdam::Create({ParametersOf("rnn", network->get())}, {}, 0);
  DING_CHECK(adam.ok()) << adam.status();
  const int64_t rows = Rows(state.range(0)) * kLength;
  auto input = BatchBuilder::Create((*network)->input_spec(), rows);
  auto output = BatchBuilder::Create((*network)->output_spec(), rows);
  DING_CHECK(input.ok() && output.ok());
  Rng rng(1, "benchmark");
  for (float& value : input->column<float>(0)) value = static_cast<float>(rng.Uniform(-1, 1));
  Sequences sequences;
  sequences.rows = input->view();
  sequences.length = kLength;
  const auto update = [&] {
    absl::Status status = (*network)->ForwardSequences(sequences, output->view(), {});
    if (status.ok()) status = (*network)->Backward(output->view());
    if (status.ok()) status = adam->Step();
    DING_CHECK(status.ok()) << status;
  };
  for (int i = 0; i < kWarmUp; ++i) update();
  for (auto _ : state) update();
  state.SetItemsProcessed(state.iterations() * rows);
  state.SetLabel(Device());
}

BENCHMARK(BM_Cnn)->Arg(32)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Replay)->Arg(512)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Mlp)->Arg(1024)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Lstm)->Arg(32)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ding
