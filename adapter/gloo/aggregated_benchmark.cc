// Measures what it costs that two learners train together: DQN with a 256x256 network and a batch
// of 256 rows, on two threads with a core each, connected by Gloo or by "tcp". The baseline is two
// independent learners of 128 rows each, with one bare all-reduce of as many numbers after each
// step.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/adapter/gloo/gloo_all_reduce.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/tcp_all_reduce.h"
#include "ding_worker/interaction/testing/rank_threads.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"

namespace ding {
namespace {

constexpr int kLearners = 2;
constexpr int64_t kRows = 256;

std::unique_ptr<LocalRendezvous> rendezvous;
int groups = 0;

void NextGroup(const benchmark::State&) {
  rendezvous = std::make_unique<LocalRendezvous>();
  ++groups;
}

SpecPtr Observation() { return *MakeSpec({Box("obs", {8})}); }
SpecPtr Action() { return *MakeSpec({Discrete("action", 4)}); }

std::unique_ptr<Policy> MakePolicy(GradientReducer* reducer) {
  DqnConfig dqn;
  dqn.mutable_model()->add_encoder_hidden_size(256);
  dqn.mutable_model()->add_encoder_hidden_size(256);
  PolicyConfig config;
  config.set_type("dqn");
  config.mutable_params()->PackFrom(dqn);
  PolicyContext context;
  context.observation = Observation();
  context.action = Action();
  context.reducer = reducer;
  return create_policy(config, context).value();
}

void Learn(benchmark::State& state, bool together, const AllReduceCreator& connect) {
  AllReduceOptions options;
  options.group = absl::StrCat("benchmark-", groups);
  options.rank = state.thread_index();
  options.world_size = kLearners;
  std::unique_ptr<AllReduce> reduce = connect(options, rendezvous.get()).value();
  AllReduce* const bare = reduce.get();
  GroupMember group;
  group.Enter(std::move(reduce));
  const std::unique_ptr<Policy> policy = MakePolicy(together ? &group : nullptr);
  std::vector<float> numbers(static_cast<DqnPolicy*>(policy.get())->network().parameters().size());
  const Batch batch = MakeTransitionBatch(Observation(), Action(), kRows / kLearners,
                                          static_cast<uint64_t>(options.rank));
  std::vector<LearnStep> steps;
  for (auto _ : state) {
    absl::Status status = policy->learn_mode()->Forward(batch, {}, &steps);
    if (status.ok() && !together) status = bare->Sum(absl::MakeSpan(numbers));
    DING_CHECK(status.ok()) << status;
  }
  // The benchmark adds up the rows of all learners and divides them by the time of one.
  state.SetItemsProcessed(state.iterations() * kRows / kLearners);
  if (together) state.SetLabel("aim=0.87");
}

void BM_AggregatedLearners(benchmark::State& state, const AllReduceCreator& connect) {
  Learn(state, /*together=*/true, connect);
}
BENCHMARK_CAPTURE(BM_AggregatedLearners, gloo, ConnectGloo)
    ->Setup(NextGroup)
    ->Threads(kLearners)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_AggregatedLearners, tcp, ConnectTcp)
    ->Setup(NextGroup)
    ->Threads(kLearners)
    ->UseRealTime();

void BM_AggregatedLearnersBaseline(benchmark::State& state, const AllReduceCreator& connect) {
  Learn(state, /*together=*/false, connect);
}
BENCHMARK_CAPTURE(BM_AggregatedLearnersBaseline, gloo, ConnectGloo)
    ->Setup(NextGroup)
    ->Threads(kLearners)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_AggregatedLearnersBaseline, tcp, ConnectTcp)
    ->Setup(NextGroup)
    ->Threads(kLearners)
    ->UseRealTime();

}  // namespace
}  // namespace ding
