// An env manager without envs for tests: it plays episodes that a test can compute and records
// every step. Like asynchronous managers, it can report only some of the envs as ready and answer
// later.
//
// The observation "obs" float32[3] is {env, episode, step of the episode}, which identifies each
// row; the episodes of an env are counted from 0. The reward is 100 * episode + step.
//
// With several players it is a game: player p sees "obs/<p>" {env + 1000 p, episode, step}, and its
// reward is (p + 1) times the reward of player 0, or 0 once it has ended (Episode::player_ends).
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_TESTING_FAKE_ENV_MANAGER_H_
#define DING_WORKER_COLLECTOR_TESTING_FAKE_ENV_MANAGER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

class FakeEnvManager : public EnvManager {
 public:
  enum class End { kTerminated, kTruncated, kAbnormal };
  struct Episode {
    int64_t length = 1;  // in steps, including an abnormal last one
    End end = End::kTerminated;
    // In a game, for players that end before it or in another way: the step at which, and how. 0:
    // they do not.
    std::vector<std::pair<int64_t, End>> player_ends = {};
  };
  struct Options {
    int env_num = 3;
    int players = 1;
    uint64_t seed = 0;  // decides which envs are ready and which answer
    // The script of an episode; by default three steps, terminated.
    std::function<Episode(int env_id, int64_t episode)> script;
    // Returns the info at the end of an episode.
    std::function<NamedValues(int env_id, int64_t episode)> info;
    // Whether Render() returns 2 x 1 pixels {env, episode, step}; else an error.
    bool can_render = false;
    bool subsets = false;     // whether only some of the envs are ready
    bool late = false;        // whether some envs answer in a later call
    int64_t episode_num = 0;  // episodes of an env before it is done; 0: no limit
  };
  // Returns a script of episodes with random lengths up to `max_length` and random ends, some
  // abnormal.
  static std::function<Episode(int, int64_t)> RandomScript(uint64_t seed, int64_t max_length,
                                                           double abnormal);

  using Obs = std::array<float, 3>;
  // An answered step.
  struct Event {
    int64_t call = 0;   // number of the Step() that answered it
    int64_t asked = 0;  // number of the step in the order of the requests
    int env_id = 0;
    Obs obs;
    Obs next_obs;
    int64_t action = 0;
    std::vector<int64_t> other_actions;  // the actions of players 1, 2, ...
    std::vector<bool> plays;             // whether each player took part
    float reward = 0;
    bool terminated = false;
    bool truncated = false;
    bool abnormal = false;
  };

  explicit FakeEnvManager(Options options);

  const std::vector<Event>& events() const { return events_; }
  int launches() const { return launches_; }
  // Makes the next Step() fail.
  void set_step_error(absl::Status status) { step_error_ = std::move(status); }

  // The interface of EnvManager. EnvManagerCore has the same declarations, because a class declares
  // its overrides itself.
  int env_num() const override { return options_.env_num; }
  const EnvSpec& env_spec() const override { return spec_; }
  using EnvManager::Seed;
  absl::Status Seed(absl::Span<const uint64_t> seeds, bool dynamic) override;
  absl::Status Launch() override;
  absl::Status Reset() override;
  absl::Status Reset(absl::Span<const EnvReset> envs) override;
  ReadyObs ready_obs() override;
  absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                        const ColumnsView& actions) override;
  bool plays(int env_id, int player) const override;
  EnvState env_state(int env_id) const override;
  bool done() const override;
  bool closed() const override { return closed_; }
  absl::StatusOr<Image> Render(int env_id) override;
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader, std::vector<int>* restarted) override;
  void Close() override { closed_ = true; }

 private:
  struct Slot {
    int64_t episode = -1;
    int64_t step = 0;
    int64_t episodes_done = 0;
    double episode_return = 0;
    std::vector<double> other_returns;
    bool asked = false;
    Event event;  // the pending step
  };

  Obs ObsOf(int env_id) const;
  // Writes the observations of all players to row `row`.
  void ShowObs(const Obs& obs, const BatchBuilder& rows, size_t row) const;
  bool IsDone(int env_id) const;
  void BeginEpisode(int env_id);
  void Answer(int env_id);
  Episode ScriptOf(int env_id) const;

  const Options options_;
  EnvSpec spec_;
  std::vector<Slot> slots_;
  std::vector<Event> events_;
  Rng rng_;
  bool closed_ = true;
  int launches_ = 0;
  int64_t calls_ = 0;
  int64_t asked_ = 0;
  absl::Status step_error_;

  BatchBuilder ready_rows_;
  std::vector<int> ready_ids_;
  BatchBuilder final_rows_;
  std::vector<int> ids_;
  std::vector<float> reward_;
  std::vector<float> other_rewards_;
  std::vector<uint8_t> terminated_;
  std::vector<uint8_t> truncated_;
  std::vector<uint8_t> abnormal_;
  std::vector<FinishedEpisode> finished_;
  BatchBuilder ended_rows_;
  std::vector<EndedPlayer> ended_players_;
  Timesteps timesteps_;
};

// Returns the options of `env_num` envs whose episodes are those of `script`.
FakeEnvManager::Options WithScript(
    int env_num, std::function<FakeEnvManager::Episode(int env_id, int64_t episode)> script);

// Returns the options of `env_num` envs whose episodes are those of FakeEnvManager::RandomScript().
// `seed` also decides which of them are ready, if the test sets `subsets` or `late`.
FakeEnvManager::Options RandomEnvs(int env_num, uint64_t seed, int64_t max_length, double abnormal);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_TESTING_FAKE_ENV_MANAGER_H_
