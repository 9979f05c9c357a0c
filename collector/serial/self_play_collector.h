// Adapts games to ISerialCollector. In self-play a policy plays all seats of a game, and its
// training data are the rows of all players in which it had a choice. Against an opponent, the
// policy plays player 0, and the opponent plays all others.
//
//     IBattleCollector ── rows of each player ──► TurnTransitions ──► GetTrainSample ──► SegmentBatch
//       policy, policy, ...     (as collected)     (choices, linked)   (once, for all)
//       policy, opponent, ...   rows of player 0 ─────── likewise ───────────────────► SegmentBatch
//                               rows of the others ───── likewise, if it learns ─────► TakeOpponentData()
//
// Code for ISerialCollector can therefore run self-play. As in the battle collector, the target
// counts the samples of each player. They include the rows in which the player waits: in a game of
// turns, n_sample rows of each of two players are about n_sample choices in total. At least one row
// is returned.
//
// A choice whose next observation is not known when Collect() ends is returned by a later Collect()
// (collector/core/turn_transitions.h). For an on-policy policy it is dropped. An episode collector
// loses none.
//
// Ownership, threads, errors: as ISerialCollector. Further errors: kInvalidArgument for level
// seeds; kFailedPrecondition if no player ever has a complete choice.
//
// Example:
//   const auto make = [](EnvManager* env, const std::vector<CollectMode*>& policies) {
//     return BattleSampleSerialCollector::Create({}, env, policies, ComponentDeps());
//   };
//   DING_ASSIGN_OR_RETURN(auto collector,
//                         SelfPlayCollector::Create(make, &games, policy, "collector"));
//   DING_ASSIGN_OR_RETURN(const SegmentBatch rows, collector->Collect(options));
#ifndef DING_WORKER_COLLECTOR_SERIAL_SELF_PLAY_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_SERIAL_SELF_PLAY_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/turn_transitions.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class SelfPlayCollector : public ISerialCollector {
 public:
  // Creates the collector of the games with a policy per player.
  using MakeBattleCollector = std::function<absl::StatusOr<std::unique_ptr<IBattleCollector>>(
      EnvManager* env, const std::vector<CollectMode*>& policies)>;

  // Plays all seats except player 0's.
  struct Opponent {
    CollectMode* policy = nullptr;  // must outlive the collector
    bool learns = false;            // whether its rows are kept
  };

  // Without an opponent, the policy plays itself. `name` is used in messages.
  //   kInvalidArgument  env or policy are null or do not fit; the env is not a game
  static absl::StatusOr<std::unique_ptr<SelfPlayCollector>> Create(
      const MakeBattleCollector& make, EnvManager* env, CollectMode* policy, absl::string_view name,
      std::optional<Opponent> opponent = std::nullopt);
  ~SelfPlayCollector() override;

  absl::Status ResetEnv(EnvManager* env) override;
  absl::Status ResetPolicy(CollectMode* policy) override;
  absl::Status Reset(CollectMode* policy, EnvManager* env) override;
  absl::Status DropEpisodes(absl::Span<const int> env_ids) override;
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) override;

  // Sets the settings of the opponent's later forward passes. The settings of Collect() are for the
  // policy alone.
  void set_opponent_settings(NamedValues settings);
  // Removes and returns the training data of the opponent since the last call; none if it does not
  // learn. SaveState() does not save them.
  std::vector<SegmentBatch> TakeOpponentData() { return std::exchange(opponent_data_, {}); }

  int64_t envstep() const override { return games_->envstep(); }
  void set_envstep(int64_t envstep) override { games_->set_envstep(envstep); }
  int64_t total_episode_count() const override { return games_->total_episode_count(); }
  std::optional<double> recent_return() const override { return games_->recent_return(); }
  absl::Status Close() override { return games_->Close(); }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  class Seat;
  // A policy, and the training data that it makes of the rows of its seats.
  struct Side;
  using Seats = std::vector<CollectMode*>;

  SelfPlayCollector(absl::string_view name, EnvManager* env);

  bool has_opponent() const;
  // Makes training data of the rows of the players of `side`, which must have the same observations
  // and actions.
  absl::StatusOr<TurnTransitions> MovesOf(const EnvSpec& game, const Side& side) const;
  Seats SeatsOf(const EnvSpec& game) const;
  absl::StatusOr<SegmentBatch> TakeMoves(absl::Span<const SegmentBatch> players, Side* side);
  absl::Status MakeTrainSamples(Side* side, SegmentBatch* data);

  // Uses this env manager and this policy from now on if reset() of the battle collector succeeds;
  // null: the current ones.
  absl::Status Use(EnvManager* env, CollectMode* policy,
                   absl::FunctionRef<absl::Status(const Seats& seats)> reset);

  const std::string name_;
  EnvManager* env_;
  std::vector<Side> sides_;  // the policy's, and the opponent's if there is one
  std::unique_ptr<IBattleCollector> games_;
  std::vector<SegmentBatch> opponent_data_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_SELF_PLAY_COLLECTOR_H_
