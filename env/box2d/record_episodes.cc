// Prints episodes of the Box2D tasks, one JSON object per line, for testdata/formulas.py: what the
// env showed and paid, beside what the bodies of the same episode did. Actions are random, but each
// is kept for a while, so that the episodes are not all alike.
#include <cstdint>
#include <iostream>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "box2d/box2d.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/box2d/bipedal_walker.h"
#include "ding_worker/env/box2d/lunar_lander.h"
#include "ding_worker/env/classic_control/raster.h"
#include "ding_worker/env/env.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using nlohmann::json;

json Describe(const b2Body& body) {
  return {{"position", {body.GetPosition().x, body.GetPosition().y}},
          {"velocity", {body.GetLinearVelocity().x, body.GetLinearVelocity().y}},
          {"angle", body.GetAngle()},
          {"spin", body.GetAngularVelocity()},
          {"mass", body.GetMass()},
          {"awake", body.IsAwake()}};
}

json Describe(const LunarLanderGame& game) {
  return {{"bodies", {Describe(game.lander()), Describe(game.leg(0)), Describe(game.leg(1))}},
          {"touches", {game.contacts().touches(0), game.contacts().touches(1)}},
          {"crashed", game.contacts().crashed()},
          {"pad_y", game.pad_y()},
          {"dispersion", game.dispersion()}};
}

json Describe(const BipedalWalkerGame& game) {
  json bodies = {Describe(game.hull())};
  for (int i = 0; i < 4; ++i) bodies.push_back(Describe(game.part(i)));
  return {{"bodies", bodies},
          {"touches", {game.contacts().touches(0), game.contacts().touches(1)}},
          {"crashed", game.contacts().crashed()}};
}

json DescribeTerrain(const WalkerTerrain& terrain) {
  json obstacles = json::array();
  for (const auto& obstacle : terrain.obstacles) {
    json corners = json::array();
    for (const Point& corner : obstacle) corners.push_back({corner.x, corner.y});
    obstacles.push_back(corners);
  }
  return {{"heights", terrain.heights}, {"obstacles", obstacles}};
}

void Draw(Rng* rng, int64_t* action) { *action = static_cast<int64_t>(rng->UniformInt(4)); }
void Draw(Rng* rng, float* action) { *action = static_cast<float>(rng->Uniform(-1, 1)); }

// Plays the same episode with the env and with its game.
template <typename Game>
void Record(const absl::StatusOr<std::unique_ptr<Env>>& created, Game* game, uint64_t seed,
            int64_t max_steps) {
  DING_CHECK(created.ok()) << created.status();
  Env* const env = created->get();
  using Action = typename Game::Action;
  BatchBuilder rows = *BatchBuilder::Create(env->spec().observation, 1);
  BatchBuilder actions = *BatchBuilder::Create(env->spec().action, 1);
  const absl::Span<Action> action = actions.column<Action>(0);
  const absl::Span<const float> obs = rows.column<float>(0);
  absl::Status status = env->Reset({seed, {}}, rows.view().row(0));
  DING_CHECK(status.ok()) << status;
  json line = Describe(*game);
  line["env"] = env->spec().name;
  line["obs"] = obs;
  line["limit"] = env->spec().max_episode_steps;
  if constexpr (std::is_same_v<Game, BipedalWalkerGame>) {
    line["terrain"] = DescribeTerrain(game->terrain());
  }
  std::cout << line << "\n";
  Rng rng(seed, "record/actions");
  StepResult result;
  for (int64_t step = 1; step <= max_steps && !result.terminated && !result.truncated; ++step) {
    if (step % 8 == 1) {
      for (Action& number : action) Draw(&rng, &number);
    }
    result = StepResult();
    status = env->Step(ColumnsView(actions.view()).row(0), rows.view().row(0), &result);
    DING_CHECK(status.ok()) << status;
    game->Step(action);
    line = Describe(*game);
    line["action"] = action;
    line["obs"] = obs;
    line["reward"] = result.reward;
    line["terminated"] = result.terminated;
    line["truncated"] = result.truncated;
    std::cout << line << "\n";
  }
}

void RecordAll() {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const LunarLanderOptions options;
    DiscreteLunarLander discrete(options, seed);
    Record(CreateLunarLander(options), &discrete, seed, 1000);
    ContinuousLunarLander continuous(options, seed);
    Record(CreateLunarLanderContinuous(options), &continuous, seed, 1000);
    for (const bool hardcore : {false, true}) {
      BipedalWalkerGame walker({hardcore}, seed);
      Record(CreateBipedalWalker(hardcore), &walker, seed, 300);
    }
  }
}

}  // namespace
}  // namespace ding

int main() {
  ding::RecordAll();
  return 0;
}
