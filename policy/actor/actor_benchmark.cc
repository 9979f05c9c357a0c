// Measures Act() of actors: the CartPole DQN network (0: 4-128-128-64, dueling 64-2 and 64-1) and two
// layers of a width. The floors are in tools/floors/network_floors.cc.
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/spec_json.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/actor/actor.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/actor_model.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/network.h"

namespace ding {
namespace {

class Fixture {
 public:
  explicit Fixture(const benchmark::State& state) : rows_(state.range(1)) {
    const bool cartpole = state.range(0) == 0;
    if (cartpole) {
      description_.mlp.encoder_hidden_size = {128, 128, 64};
    } else {
      description_.mlp.encoder_hidden_size = {state.range(0), state.range(0)};
    }
    description_.mlp.dueling = cartpole;
    description_.mlp.head_layer_num = cartpole ? 1 : 0;
    description_.parameters = kModelScope;
    description_.head = kQHead;
    observation_ = *MakeSpec({Box("obs", {cartpole ? 4 : 17})});
    const int64_t actions = cartpole ? 2 : 6;
    action_ = *MakeSpec({Discrete("action", actions)});
    output_ = *MakeSpec({Box("q", {actions})});
  }

  std::unique_ptr<Actor> MakeActor() const {
    CheckpointInfo info;
    info.fields[kActorField] = ActorDescriptionToJson(description_);
    info.fields[kObservationField] = SpecToJson(*observation_);
    info.fields[kActionField] = SpecToJson(*action_);
    const auto mlp = Mlp::Create(description_.mlp, observation_, output_, /*seed=*/0);
    DING_CHECK(mlp.ok()) << mlp.status();
    StateDict model;
    const absl::Status saved =
        SaveParameters((*mlp)->parameter_info(), (*mlp)->parameters(), kModelScope, &model);
    DING_CHECK(saved.ok()) << saved;
    auto loaded = ReadActorModel(info, &model);
    DING_CHECK(loaded.ok()) << loaded.status();
    return *Actor::Create(*std::move(loaded), {});
  }

  int64_t rows() const { return rows_; }

 private:
  const int64_t rows_;
  ActorDescription description_;
  SpecPtr observation_;
  SpecPtr action_;
  SpecPtr output_;
};

void BM_Act(benchmark::State& state) {
  const Fixture f(state);
  const std::unique_ptr<Actor> actor = f.MakeActor();
  const auto obs = BatchBuilder::Create(actor->observation(), f.rows());
  DING_CHECK(obs.ok()) << obs.status();
  Rng rng(1, "benchmark");
  for (float& value : obs->column<float>(0)) value = static_cast<float>(rng.Uniform(-1, 1));
  for (auto _ : state) {
    const auto action = actor->Act(obs->view());
    DING_CHECK(action.ok()) << action.status();
    benchmark::DoNotOptimize(action->column<int64_t>(0)[0]);
  }
  state.SetItemsProcessed(state.iterations() * f.rows());
}

// (0, rows): the CartPole network; (width, rows): two layers of that width.
void Cases(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t width : {0, 256}) {
    for (const int64_t rows : {1, 8, 64}) benchmark->Args({width, rows});
  }
}

BENCHMARK(BM_Act)->Apply(Cases);

}  // namespace
}  // namespace ding
