#include "ding_worker/worker/tasks/parallel_collect.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"

namespace ding {
namespace {

constexpr char kParams[] = "policy.collect.collector.params";
constexpr char kBuffer[] = "policy.other.replay_buffer";

// The amount that a config from before 0.2.0 means, whose n_sample counted the rows of one env, and
// whose n_episode the episodes of one collector.
std::string AmountOfEarlierConfig(const ExperimentConfig& config, int64_t collectors) {
  const CollectSection& collect = config.policy().collect();
  if (collect.has_n_episode()) return absl::StrCat("n_episode: ", collect.n_episode() * collectors);
  const int64_t rows = collect.n_sample() * config.env().collector_env_num() * collectors;
  return absl::StrCat("n_sample: ", std::max<int64_t>(1, rows / collect.unroll_len()));
}

// Returns the number of collectors in its former place, if it is there.
std::optional<int64_t> FormerCollectorNum(const CollectSection& collect) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  if (!collect.has_collector_num()) return std::nullopt;
  return collect.collector_num();
#pragma GCC diagnostic pop
}

void AppendCollectorNumProblems(const ExperimentConfig& config,
                                std::vector<std::string>* problems) {
  const CollectSection& collect = config.policy().collect();
  const std::optional<int64_t> former = FormerCollectorNum(collect);
  if (!former.has_value() && collect.collector().has_collector_num()) return;
  const int64_t collectors = former.value_or(2);  // the former default
  const std::string number = absl::StrCat("collector { collector_num: ", collectors, " }");
  problems->push_back(absl::StrCat(
      former.has_value()
          ? absl::StrCat("policy.collect.collector_num is ", collectors,
                         ", the former name of collector.collector_num: expected ", number)
          : absl::StrCat("policy.collect.collector.collector_num is not set: expected ",
                         "the number of collectors, such as ", number),
      IsSupervised(config)
          ? ""
          : absl::StrCat(". n_sample and n_episode are now of all envs and collectors together: "
                         "what the config of an earlier version says is now collect { ",
                         AmountOfEarlierConfig(config, collectors), " ", number, " }")));
}

// Says what a parallel run cannot obey of the type of collector: it collects by parallel_collector.
void AppendTypeProblems(const ExperimentConfig& config, std::vector<std::string>* problems) {
  const SerialCollectorConfig& collector = config.policy().collect().collector();
  const auto for_one = SerialCollectorRegistry().Find(collector.type());
  const auto for_games = BattleCollectorRegistry().Find(collector.type());
  const bool in_parallel =
      for_one.ok() ? for_one->in_parallel : !for_games.ok() || for_games->in_parallel;
  if (!in_parallel) {
    problems->push_back(
        absl::StrCat("policy.collect.collector.type is '", collector.type(),
                     "', which collects in serial runs only: expected 'sample' or 'episode'; "
                     "policy.collect.parallel_collector.type chooses a collector of your own"));
    return;
  }
  if (!for_one.ok()) {
    for (const SetField& field : ListSetFields(config)) {
      if (!absl::StartsWith(field.path, absl::StrCat(kParams, "."))) continue;
      problems->push_back(
          absl::StrCat(field.path, " is ", field.value,
                       ", which has no effect in a parallel run: leave it out; ",
                       "training data is made of the choices of all players that learn"));
    }
    return;
  }
  EpisodeCollectorParams params;
  if (for_one->params_message == nullptr ||
      for_one->params_message() != EpisodeCollectorParams::descriptor()) {
    return;
  }
  if (collector.params().UnpackTo(&params) && params.get_train_sample()) return;
  problems->push_back(absl::StrCat(
      kParams, ".get_train_sample is false, but a parallel run hands over training data: expected ",
      "params { [type.googleapis.com/ding.EpisodeCollectorParams] { get_train_sample: true } }"));
}

absl::StatusOr<ItemBuffer> ItemsOf(const BufferConfig& config) {
  DING_ASSIGN_OR_RETURN(const BufferDescriptor type, get_buffer_cls(config));
  if (type.items == nullptr) return ItemBuffer{config, {}};
  return CallUser("BufferDescriptor::items", [&] { return type.items(config); });
}

// AppendItemBufferProblems() reports a type that this program does not have, and a setting that the
// type refuses.
ItemBuffer ItemsOrRows(const BufferConfig& config) {
  return ItemsOf(config).value_or(ItemBuffer{config, {}});
}

}  // namespace

int64_t ShareOfCollector(const ExperimentConfig& config) {
  const CollectSection& collect = config.policy().collect();
  const int64_t amount = collect.has_n_episode() ? collect.n_episode() : collect.n_sample();
  const int64_t collectors = std::max(1, collect.collector().collector_num());
  return amount / collectors + (amount % collectors > 0 ? 1 : 0);
}

PolicyConfig MakeCollectorPolicyConfig(const ExperimentConfig& config) {
  PolicyConfig policy = MakePolicyConfig(config);
  const int64_t share = ShareOfCollector(config);
  policy.has_n_episode() ? policy.set_n_episode(share) : policy.set_n_sample(share);
  return policy;
}

ParallelCollectorConfig MakeCollectorConfig(const ExperimentConfig& config) {
  const SerialCollectorConfig& shared = config.policy().collect().collector();
  ParallelCollectorConfig collector = config.policy().collect().parallel_collector();
  collector.set_max_abnormal(shared.max_abnormal());
  if (const std::string name = RewardShapingOf(config); !name.empty()) {
    collector.set_reward_shaping(name);
  }
  return collector;
}

void AppendCollectProblems(const ExperimentConfig& config, std::vector<std::string>* problems) {
  AppendCollectorNumProblems(config, problems);
  if (IsSupervised(config)) return;
  for (std::string& problem : FindCollectProblems(config, /*parallel=*/true)) {
    problems->push_back(std::move(problem));
  }
  AppendTypeProblems(config, problems);
}

bool HasItemsOfSequences(const BufferConfig& config) {
  const absl::StatusOr<BufferDescriptor> type = get_buffer_cls(config);
  return type.ok() && type->items != nullptr;
}

ItemSequences ItemSequencesOf(const BufferConfig& config) { return ItemsOrRows(config).sequences; }

BufferConfig ItemBufferConfig(const BufferConfig& config) { return ItemsOrRows(config).config; }

void AppendItemBufferProblems(const ExperimentConfig& config, bool plays_games,
                              std::vector<std::string>* problems) {
  BufferConfig buffer = config.policy().other().replay_buffer();
  if (buffer.storage() != BufferConfig::MEMORY) {
    problems->push_back(absl::StrCat(
        kBuffer, ".storage is ", BufferConfig::Storage_Name(buffer.storage()), ", path '",
        buffer.path(),
        "', expected MEMORY: the rows of a parallel run lie in its store, and system.store_url "
        "'file:/folder' keeps them on a disk"));
    buffer.clear_storage();
  }
  const absl::StatusOr<BufferDescriptor> type = get_buffer_cls(buffer);
  if (!type.ok()) return;  // The factory refuses an unknown type.
  if (type->items == nullptr) {
    if (type->tells_removed_items) return;
    problems->push_back(absl::StrCat(
        kBuffer, ".type is '", buffer.type(),
        "', which does not tell which items leave it, so that a parallel run could not delete "
        "their data: expected 'naive', 'advanced', 'sequence' or another type that does"));
    return;
  }
  if (plays_games) {
    problems->push_back(absl::StrCat(kBuffer, ".type is '", buffer.type(),
                                     "', but the rows of a league's games are handed over one by "
                                     "one: expected a type that draws those"));
    return;
  }
  buffer.clear_replay_ratio();  // which the coordinator obeys
  const absl::Status made = create_buffer(buffer, BufferDeps()).status();
  if (!made.ok()) {
    problems->push_back(absl::StrCat(kBuffer, ": ", made.message()));
    return;
  }
  const absl::StatusOr<ItemBuffer> items = ItemsOf(buffer);
  if (!items.ok()) {
    problems->push_back(absl::StrCat(kBuffer, ": ", items.status().message()));
    return;
  }
  const ItemSequences& sequences = items->sequences;
  // Episodes are handed over whole, and may have any length.
  if (config.policy().collect().has_n_episode()) return;
  const CollectSection& collect = config.policy().collect();
  if (sequences.whole_episodes) {
    problems->push_back(absl::StrCat(
        "policy.collect.n_sample is ", collect.n_sample(), ", but ", kBuffer, ".type is '",
        buffer.type(),
        "', which draws whole episodes: expected policy.collect.n_episode in its place, as "
        "'n_episode: 1', so that whole episodes are handed over"));
    return;
  }
  const int64_t rows =
      ShareOfCollector(config) * collect.unroll_len() / config.env().collector_env_num();
  if (rows < sequences.length && !sequences.padding) {
    problems->push_back(absl::StrCat(
        "policy.collect.n_sample is ", collect.n_sample(), ", ", rows,
        " rows of each env of each collector, but the sequences of ", kBuffer, " have ",
        sequences.length,
        " rows: expected as many rows of each or more, best a multiple, because a sequence lies "
        "within the rows of an env that are handed over together; or set padding"));
  }
}

}  // namespace ding
