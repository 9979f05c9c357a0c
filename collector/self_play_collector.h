// Self-play as a collector for one: a policy plays all seats of a game, and the rows in which it
// had a choice, of all players, are its training data.
//
//     IBattleCollector ── rows of each player ──► OwnMoves ──► GetTrainSample ──► SegmentBatch
//       policy, policy, ...     (as collected)     (choices, linked)   (once, for all)
//
// So whoever drives an ISerialCollector drives self-play. A target counts rows of each player as
// the battle collector counts them, waiting included: in a game of turns, n_sample rows of each of
// two players are about n_sample choices in all. At least one row is handed over.
//
// Of an on-policy policy, a choice is dropped whose outcome is not known when its collect ends;
// else it comes with a later collect (collector/own_moves.h). A collector of episodes loses none.
//
// Ownership, threads, errors: as ISerialCollector. Beside those: kInvalidArgument for level seeds;
// kFailedPrecondition if no player ever has a choice whose outcome can be seen.
//
// Example:
//   const auto make = [](EnvManager* env, const std::vector<CollectMode*>& policies) {
//     return BattleSampleSerialCollector::Create({}, env, policies, ComponentDeps());
//   };
//   DING_ASSIGN_OR_RETURN(auto collector,
//                         SelfPlayCollector::Create(make, &games, policy, "collector"));
//   DING_ASSIGN_OR_RETURN(const SegmentBatch rows, collector->Collect(options));
#ifndef DING_WORKER_COLLECTOR_SELF_PLAY_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_SELF_PLAY_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/collector/battle_collector.h"
#include "ding_worker/collector/own_moves.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class SelfPlayCollector : public ISerialCollector {
 public:
  // Makes the collector of the games, with a policy for each player.
  using MakeBattleCollector = std::function<absl::StatusOr<std::unique_ptr<IBattleCollector>>(
      EnvManager* env, const std::vector<CollectMode*>& policies)>;

  // `name` stands in messages.
  //   kInvalidArgument  env or policy null or not fitting; an env for one
  static absl::StatusOr<std::unique_ptr<SelfPlayCollector>> Create(const MakeBattleCollector& make,
                                                                   EnvManager* env,
                                                                   CollectMode* policy,
                                                                   absl::string_view name);
  ~SelfPlayCollector() override;

  absl::Status ResetEnv(EnvManager* env) override;
  absl::Status ResetPolicy(CollectMode* policy) override;
  absl::Status Reset(CollectMode* policy, EnvManager* env) override;
  absl::Status DropEpisodes(absl::Span<const int> env_ids) override;
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) override;

  int64_t envstep() const override { return games_->envstep(); }
  void set_envstep(int64_t envstep) override { games_->set_envstep(envstep); }
  int64_t total_episode_count() const override { return games_->total_episode_count(); }

  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  class Seat;

  SelfPlayCollector(absl::string_view name, EnvManager* env, std::unique_ptr<Seat> seat,
                    OwnMoves moves);

  std::vector<CollectMode*> Seats(Seat* seat, const EnvManager& env) const;

  const std::string name_;
  EnvManager* env_;
  std::unique_ptr<Seat> seat_;  // the policy, as the games know it
  OwnMoves moves_;
  std::unique_ptr<IBattleCollector> games_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SELF_PLAY_COLLECTOR_H_
