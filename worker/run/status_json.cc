#include "ding_worker/worker/run/status_json.h"

#include "ding_worker/interaction/control/protocol.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json IfKnown(bool known, const Value& value) {
  return known ? Json(value) : Json();
}

Json WorkerJson(const WorkerStatus& worker) {
  Json json;
  json["worker"] = worker.worker();
  json["name"] = worker.name();
  json["role"] = std::string(RoleName(worker.role()));
  json["pid"] = worker.pid();
  json["task"] = IfKnown(!worker.task_id().empty(), worker.task_id());
  json["evaluates"] = worker.evaluates();
  json["draining"] = worker.draining();
  json["alive_seconds"] = worker.alive_seconds();
  json["steps_per_second"] = worker.steps_per_second();
  json["waits_for"] = IfKnown(!worker.waits_for().empty(), worker.waits_for());
  json["stalled_seconds"] = IfKnown(worker.has_stalled_seconds(), worker.stalled_seconds());
  json["bad_chunks"] = worker.bad_chunks();
  const Resources& has = worker.resources();
  json["cpus"] = IfKnown(worker.has_resources(), has.cpus());
  json["memory_bytes"] = IfKnown(worker.has_resources(), has.memory_bytes());
  json["gpus"] = IfKnown(worker.has_resources(), has.gpus());
  json["members"] = Json::array();
  for (const WorkerStatus& member : worker.member()) json["members"].push_back(WorkerJson(member));
  return json;
}

Json BufferJson(const BufferStatus& buffer) {
  Json json;
  json["buffer"] = buffer.buffer_id();
  json["rows"] = buffer.count();
  json["pushed"] = buffer.push_count();
  json["drawn"] = buffer.sample_count();
  json["removed"] = buffer.removed_count();
  json["too_old"] = buffer.too_old_count();
  json["lost"] = buffer.lost_count();
  json["chunks"] = buffer.chunks();
  json["bad_chunks"] = buffer.bad_chunks();
  json["staleness"] = IfKnown(buffer.has_staleness_iterations(), buffer.staleness_iterations());
  json["replay_ratio"] = IfKnown(buffer.has_replay_ratio(), buffer.replay_ratio());
  return json;
}

Json PolicyJson(const TrainedPolicyStatus& policy) {
  Json json;
  json["policy"] = policy.policy_id();
  json["task"] = policy.task_id();
  json["env_step"] = policy.envstep();
  json["train_iter"] = policy.train_iter();
  json["eval"] = IfKnown(policy.has_eval_value(), policy.eval_value());
  json["version"] = IfKnown(policy.has_policy_version(), policy.policy_version());
  json["converged"] = policy.converged();
  return json;
}

Json LeagueJson(const LeagueStatus& league) {
  Json json;
  json["player"] = league.player_id();
  json["historical_players"] = league.historical_players();
  json["min_win_rate"] = IfKnown(league.has_min_win_rate(), league.min_win_rate());
  json["rating"] = league.rating();
  json["rating_sigma"] = league.rating_sigma();
  json["eval_opponent"] = league.eval_opponent();
  return json;
}

}  // namespace

std::string RunStatusToJson(const RunStatus& status) {
  Json json;
  json["run"] = status.run();
  json["elapsed_seconds"] = status.elapsed_seconds();
  json["env_step"] = status.envstep();
  json["train_iter"] = status.train_iter();
  json["eval"] = IfKnown(status.has_eval_value(), status.eval_value());
  json["best_eval"] = IfKnown(status.has_best_eval_value(), status.best_eval_value());
  json["converged"] = status.converged();
  json["policy_version"] = status.policy_version();
  json["values"] = Json::object();
  for (const Setting& shown : status.shown()) json["values"][shown.name()] = shown.value();
  json["workers_joined"] = status.workers_joined();
  json["workers_lost"] = status.workers_lost();
  json["wanted_collectors"] = IfKnown(status.has_wanted_collectors(), status.wanted_collectors());
  json["coordinator_pid"] = status.coordinator_pid();
  json["workers"] = Json::array();
  for (const WorkerStatus& worker : status.worker()) json["workers"].push_back(WorkerJson(worker));
  json["buffers"] = Json::array();
  for (const BufferStatus& buffer : status.buffer()) json["buffers"].push_back(BufferJson(buffer));
  json["policies"] = Json::array();
  for (const TrainedPolicyStatus& policy : status.trained_policy()) {
    json["policies"].push_back(PolicyJson(policy));
  }
  json["league"] = status.has_league() ? LeagueJson(status.league()) : Json();
  json["warnings"] = Json::array();
  for (const std::string& warning : status.warning()) json["warnings"].push_back(warning);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ding
