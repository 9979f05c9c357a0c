#include "ding_worker/coordinator/simulation/workers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/collector/comm/collected_items.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/simulation/world.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace internal_simulation {

using internal_coordinator::RunDriver;

void Workers::AddFirst() {
  agents_.reserve(kMaxAgents);  // Messages under way refer to them.
  const SpecPtr spec = MakeSpec({Scalar(kColumnCollectIter, DType::kInt64)}).value();
  for (int64_t size = 1; size <= kMaxRows; ++size) {
    BatchBuilder builder = BatchBuilder::Create(spec, size).value();
    for (int64_t& collect_iter : builder.column<int64_t>(0)) collect_iter = -1;
    SegmentBatch& data = rows_.emplace_back();
    data.rows = std::move(builder).Seal(size);
    data.segments = {{0, 0, 0, size, SegmentEnd::kTerminated}};
  }
  Add(Hello::LEARNER);
  const uint64_t collectors = 1 + world_->loop.rng()->UniformInt(3);
  for (uint64_t i = 0; i < collectors; ++i) Add(Hello::COLLECTOR);
}

void Workers::Add(Hello::Role role) {
  Agent& added = agents_.emplace_back();
  added.index = static_cast<int>(agents_.size()) - 1;
  added.role = role;
  added.name = role == Hello::LEARNER ? "learner" : absl::StrCat("collector-", added.index);
  added.pid = ++pids_;
}

void Workers::Supervise() {
  const Coordinators& coordinators = world_->coordinators;
  if (coordinators.over()) return;
  world_->loop.In(kSecond, [this] { Supervise(); });
  if (!coordinators.works()) return;
  int here = 0;
  for (const Agent& agent : agents_) {
    if (agent.role == Hello::COLLECTOR && !agent.gone) ++here;
  }
  const int wanted = coordinators.newest()->driver->state().wanted_collectors;
  if (here >= wanted || agents_.size() == kMaxAgents) return;
  Add(Hello::COLLECTOR);
  ConnectIn(500 * kMillis, agents_.back().index);
}

void Workers::ConnectAll() {
  for (const Agent& agent : agents_) {
    if (agent.session < 0) ConnectIn(50 * kMillis, agent.index);
  }
}

void Workers::ConnectIn(int64_t mean, int index) {
  world_->loop.In(world_->loop.Delay(mean), [this, index] { Connect(index); });
}

void Workers::Connect(int index) {
  SimLoop& loop = world_->loop;
  Coordinators& coordinators = world_->coordinators;
  Agent& joins = agent(index);
  if (joins.gone || joins.session >= 0 || coordinators.over()) return;
  const std::shared_ptr<Process> process = coordinators.newest();
  if (loop.now() < joins.stopped_until || !coordinators.works() ||
      !process->driver->paused().ok()) {
    return ConnectIn(200 * kMillis, index);
  }
  Hello hello;
  hello.set_role(joins.role);
  hello.set_name(joins.name);
  hello.set_pid(joins.pid);
  hello.mutable_resources()->set_cpus(1);
  if (joins.number > 0) {
    hello.set_previous_worker(joins.number);
    hello.set_previous_incarnation(joins.incarnation);
  }
  Event admit;
  *admit.mutable_admit() = hello;
  const RunDriver::Result result = coordinators.Apply(process, &admit);
  coordinators.AfterEvents(process);
  if (!result.status.ok() || !process->alive || !process->driver->paused().ok()) {
    return ConnectIn(500 * kMillis, index);
  }
  world_->invariants.NoteNumber(result.admitted);
  Event joined;
  joined.set_worker(result.admitted);
  *joined.mutable_joined()->mutable_hello() = hello;
  joined.mutable_joined()->set_peer("peer");
  for (std::string& key : process->driver->PreviousKeys(hello)) {
    joined.mutable_joined()->add_previous_key(std::move(key));
  }
  Agent fresh;
  fresh.index = index;
  fresh.role = joins.role;
  fresh.name = joins.name;
  fresh.pid = joins.pid;
  fresh.number = result.admitted;
  fresh.incarnation = process->driver->state().incarnation;
  fresh.session = world_->network.Open(process, index, result.admitted);
  fresh.version = joins.version;
  fresh.stopped_until = joins.stopped_until;
  fresh.last_data = std::move(joins.last_data);
  fresh.last_data_number = joins.last_data_number;
  joins = std::move(fresh);
  loop.Trace(joins.name, " joins as ", joins.number);
  coordinators.Apply(process, &joined);
  coordinators.AfterEvents(process);
}

void Workers::NoteSessionLost(int session, const std::string& why) {
  Agent& loses = agent(world_->network.session(session).agent);
  if (loses.session != session) return;
  world_->loop.Trace(loses.name, " has lost its session: ", why);
  loses.session = -1;
  loses.has_task = false;
  ConnectIn(100 * kMillis, loses.index);
}

void Workers::Stop(int index) {
  SimLoop& loop = world_->loop;
  Agent& stops = agent(index);
  const int64_t length = loop.Delay(2 * kSecond);
  stops.stopped_until = std::max(stops.stopped_until, loop.now() + length);
  if (length < kLease || stops.session < 0) return;
  Network* const network = &world_->network;
  const int session = stops.session;
  const char* const why = "the lease ran out";
  loop.In(kLease, [network, session, why] { network->LoseWorker(session, why); });
  loop.At(stops.stopped_until, [network, session, why] { network->CutAtWorker(session, why); });
}

void Workers::Leave(int index) {
  Agent& leaves = agent(index);
  world_->loop.Trace(leaves.name, " leaves");
  leaves.gone = true;
  leaves.has_task = false;
  world_->network.Leave(std::exchange(leaves.session, -1), "it leaves");
}

void Workers::Respawn(int index) {
  Agent& before = agent(index);
  if (before.gone) return;
  world_->network.Leave(before.session, "its process died");
  Agent fresh;
  fresh.index = index;
  fresh.role = before.role;
  fresh.name = before.name;
  fresh.pid = ++pids_;
  before = std::move(fresh);
  ConnectIn(300 * kMillis, index);
}

void Workers::RepeatData(int index) {
  const Agent& repeats = agent(index);
  if (repeats.session < 0 || repeats.last_data.empty()) return;
  // Data of before it joined again are refused.
  if (repeats.last_data_number != repeats.number) {
    world_->network.session(repeats.session).confused = true;
  }
  WorkerMessage message;
  message.ParseFromString(repeats.last_data);
  Send(repeats, std::move(message));
}

void Workers::TraceStatus() const {
  for (const Session& session : world_->network.sessions()) {
    if (!session.coordinator_open || !session.process->alive) continue;
    const internal_coordinator::RunState& state = session.process->driver->state();
    const internal_coordinator::Worker* const worker = state.workers.Find(session.number);
    if (worker == nullptr) continue;
    const Agent& agent = agents_[static_cast<size_t>(session.agent)];
    world_->loop.Trace(
        "coordinator ", state.incarnation, ": ", agent.name, " (", session.number,
        session.open ? "" : ", cut", session.waits ? ", held" : "", ", ", session.inbox.size(),
        " messages) runs ", worker->task.has_value() ? worker->task->id() : "nothing",
        " and waits for '", worker->waits_for, "'; it has ", agent.has_task ? "a task" : "no task",
        ", ", agent.sent.size(), " data under way, ", agent.demands_under_way, " demands");
  }
}

void Workers::Send(const Agent& agent, WorkerMessage message) {
  world_->network.Send(agent.session, std::move(message));
}

void Workers::Receive(int session, const CoordinatorMessage& message) {
  SimLoop& loop = world_->loop;
  const Session& from = world_->network.session(session);
  if (!from.open) return;
  Agent& to = agent(from.agent);
  if (to.session != session) return;
  if (loop.now() < to.stopped_until) {
    loop.At(to.stopped_until + 1, [this, session, message] { Receive(session, message); });
    return;
  }
  if (message.has_start_task()) {
    BeginTask(&to, message.start_task());
  } else if (message.has_close_task()) {
    to.has_task = false;
    to.sent.clear();  // Nobody wants these data.
  } else if (message.has_end_run()) {
    Leave(to.index);
  } else if (to.role == Hello::COLLECTOR) {
    to.collector.Take(message);
    const CollectorDataAck& ack = message.collector_data_ack();
    while (!to.sent.empty() && to.sent.begin()->first <= ack.sequence()) {
      for (const Row& row : to.sent.begin()->second) {
        world_->invariants.NoteAcknowledged(*from.process, row);
      }
      to.sent.erase(to.sent.begin());
    }
    ActSoon(&to, 5 * kMillis);
  } else if (to.has_task && message.has_learner_data() &&
             message.learner_data().task_id() == to.task.learner().task_id()) {
    to.demands.Take(message.learner_data());
    ActSoon(&to, 20 * kMillis);
  }
}

void Workers::BeginTask(Agent* agent, const StartTask& start) {
  agent->task = start;
  agent->has_task = true;
  agent->progress = {};
  agent->chunks_left = static_cast<int64_t>(world_->loop.rng()->UniformInt(6));
  agent->sent.clear();
  agent->drawn.clear();
  if (agent->role == Hello::LEARNER) {
    agent->demands.DropAnswers();
    agent->demands_under_way = 0;
    agent->version = start.learner().first_version();
    WorkerMessage started;
    started.mutable_task_started()->set_task_id(start.learner().task_id());
    Send(*agent, started);
  } else {
    agent->collector.Start(start.collector());
    agent->version = 0;
  }
  ActSoon(agent, 30 * kMillis);
}

void Workers::ActSoon(Agent* agent, int64_t mean) {
  if (agent->busy) return;
  agent->busy = true;
  world_->loop.In(world_->loop.Delay(mean), [this, agent, session = agent->session] {
    if (agent->session != session) return;
    agent->busy = false;
    Act(agent);
  });
}

void Workers::Act(Agent* agent) {
  if (!agent->has_task || agent->session < 0) return;
  const int64_t now = world_->loop.now();
  if (now < agent->stopped_until) {
    ActSoon(agent, agent->stopped_until - now);
  } else if (agent->role == Hello::LEARNER) {
    Learn(agent);
  } else {
    Collect(agent);
  }
}

void Workers::Collect(Agent* agent) {
  const CollectorTask& task = agent->task.collector();
  const PolicyVersion* const newer = agent->collector.NewerPolicy(0, agent->version);
  if (newer != nullptr) agent->version = newer->version();
  if (!task.eval_flag() && agent->chunks_left > 0) {
    // An acknowledgement makes it go on.
    if (!agent->collector.MayAnnounce() || !agent->collector.MayGoOn()) return;
    --agent->chunks_left;
    const int64_t chunk = ChunkNumber(agent->number, agent->chunk++);
    world_->store.keys.insert(ChunkKey(chunk));
    const int64_t rows = 1 + static_cast<int64_t>(world_->loop.rng()->UniformInt(kMaxRows));
    agent->progress.cur_step += rows;
    world_->invariants.NoteSteps(rows);
    WorkerMessage message;
    CollectorData* const data = message.mutable_collector_data();
    *data = agent->collector.Announce(
        EncodeItems(rows_[static_cast<size_t>(rows - 1)], chunk).value(), agent->progress);
    std::vector<Row>& sent = agent->sent[data->sequence()];
    for (int64_t row = 0; row < rows; ++row) sent.emplace_back(chunk, row);
    agent->last_data = message.SerializeAsString();
    agent->last_data_number = agent->number;
    Send(*agent, std::move(message));
    ActSoon(agent, 40 * kMillis);
    return;
  }
  WorkerMessage message;
  CollectorFinished* const info = message.mutable_collector_finished();
  info->set_task_id(task.task_id());
  info->set_eval_flag(task.eval_flag());
  info->set_collector_done(true);
  info->set_train_iter(-1);
  info->set_step_count(std::max<int64_t>(1, agent->progress.cur_step));
  info->add_episode_return(1);
  agent->has_task = false;
  Send(*agent, std::move(message));
}

void Workers::Learn(Agent* agent) {
  Rng* const rng = world_->loop.rng();
  if (agent->drawn.empty() && agent->demands.has_answer()) {
    --agent->demands_under_way;
    LearnerData data = agent->demands.NextAnswer();
    for (std::string& items : *data.mutable_items()) {
      agent->drawn.emplace_back(data.sequence(), std::move(items));
    }
  }
  if (!agent->drawn.empty()) ReadBatch(agent);
  if (agent->demands_under_way < kDemands) {
    ++agent->demands_under_way;
    WorkerMessage message;
    LearnerDemand* const demand = message.mutable_learner_demand();
    *demand = agent->demands.Demand();
    demand->set_task_id(agent->task.learner().task_id());
    demand->set_batch_size(1 + static_cast<int64_t>(rng->UniformInt(4)));
    demand->set_batches(1 + static_cast<int>(rng->UniformInt(2)));
    demand->set_train_iter(checkpoint_);
    Send(*agent, std::move(message));
  }
  const bool goes_on = !agent->drawn.empty() || agent->demands.has_answer();
  if (goes_on || agent->demands_under_way < kDemands) ActSoon(agent, 10 * kMillis);
}

void Workers::ReadBatch(Agent* agent) {
  const auto [sequence, items] = std::move(agent->drawn.front());
  agent->drawn.pop_front();
  // Nobody waits for a learner whose session is over, or whose coordinator was replaced, or for the
  // end of a run.
  const Session& session = world_->network.session(agent->session);
  const bool counts = !world_->coordinators.over() && session.coordinator_open &&
                      session.process->epoch == world_->disk.epoch();
  WorkerMessage bad;
  const Batch batch = DecodeBatch(items).value();
  for (const int64_t chunk : batch.column<int64_t>(kColumnChunk)) {
    if (world_->store.keys.count(ChunkKey(chunk)) > 0) continue;
    world_->loop.Trace(agent->name, " misses ", ChunkKey(chunk));
    if (counts && !world_->store.HasHad(ChunkKey(chunk)))
      world_->loop.Break("no data are deleted that somebody reads", ChunkKey(chunk));
    BadChunk* const told = bad.mutable_bad_chunks()->add_chunk();
    told->set_chunk(chunk);
    told->set_gone(true);
  }
  if (bad.has_bad_chunks()) {
    bad.mutable_bad_chunks()->set_task_id(agent->task.learner().task_id());
    Send(*agent, std::move(bad));
  }
  agent->demands.CountRead(sequence);
  ++checkpoint_;
  WorkerMessage info;
  info.mutable_learner_info()->set_task_id(agent->task.learner().task_id());
  info.mutable_learner_info()->set_learner_step(checkpoint_);
  Send(*agent, std::move(info));
  if (world_->loop.rng()->UniformInt(4) == 0) PublishPolicy(agent);
}

void Workers::PublishPolicy(Agent* agent) {
  WorkerMessage message;
  PolicyVersion* const version = message.mutable_policy_version();
  version->set_policy_id(agent->task.learner().policy_id());
  version->set_version(agent->version++);
  version->set_train_iter(checkpoint_);
  version->set_key(PolicyKey(version->policy_id(), version->version(), agent->number));
  world_->store.keys.insert(version->key());
  Send(*agent, std::move(message));
}

}  // namespace internal_simulation
}  // namespace ding
