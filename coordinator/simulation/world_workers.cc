// What the workers do.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/collector/comm/collected_items.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/simulation/world.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/chunk_key.h"

namespace ding {
namespace internal_simulation {

using internal_coordinator::RunDriver;

void World::Connect(int index) {
  Agent* const agent = &agents_[static_cast<size_t>(index)];
  if (agent->gone || agent->session >= 0 || over_) return;
  const std::shared_ptr<Process> process = process_;
  if (now() < agent->stopped_until || process == nullptr || !process->alive || process->stopped ||
      !process->driver->paused().ok()) {
    In(Delay(200 * kMillis), [this, index] { Connect(index); });
    return;
  }
  Hello hello;
  hello.set_role(agent->role);
  hello.set_name(agent->name);
  hello.set_pid(agent->pid);
  hello.mutable_resources()->set_cpus(1);
  if (agent->number > 0) {
    hello.set_previous_worker(agent->number);
    hello.set_previous_incarnation(agent->incarnation);
  }
  Event admit;
  *admit.mutable_admit() = hello;
  const RunDriver::Result result = Apply(process, &admit);
  AfterEvents(process);
  if (!result.status.ok() || !process->alive || !process->driver->paused().ok()) {
    In(Delay(500 * kMillis), [this, index] { Connect(index); });
    return;
  }
  if (!numbers_.insert(result.admitted).second) {
    Break("no number is given twice", absl::StrCat(result.admitted));
  }
  Event joined;
  joined.set_worker(result.admitted);
  *joined.mutable_joined()->mutable_hello() = hello;
  joined.mutable_joined()->set_peer("peer");
  for (std::string& key : process->driver->PreviousKeys(hello)) {
    joined.mutable_joined()->add_previous_key(std::move(key));
  }
  Agent fresh;
  fresh.role = agent->role;
  fresh.name = agent->name;
  fresh.pid = agent->pid;
  fresh.life = agent->life;
  fresh.number = result.admitted;
  fresh.incarnation = process->driver->state().incarnation;
  fresh.session = static_cast<int>(sessions_.size());
  fresh.version = agent->version;
  fresh.stopped_until = agent->stopped_until;
  fresh.last_data = std::move(agent->last_data);
  fresh.last_data_number = agent->last_data_number;
  *agent = std::move(fresh);
  Session session;
  session.process = process;
  session.agent = index;
  session.life = agent->life;
  session.number = agent->number;
  sessions_.push_back(std::move(session));
  Trace(agent->name, " joins as ", agent->number);
  Apply(process, &joined);
  AfterEvents(process);
}

// The worker notices that its session is over, and joins again.
void World::CutAtWorker(int index, const std::string& why) {
  Session& session = sessions_[static_cast<size_t>(index)];
  if (!session.open) return;
  session.open = false;
  Agent& agent = agents_[static_cast<size_t>(session.agent)];
  if (agent.session != index) return;
  Trace(agent.name, " has lost its session: ", why);
  agent.session = -1;
  agent.has_task = false;
  const int number = session.agent;
  In(Delay(100 * kMillis), [this, number] { Connect(number); });
}

void World::Cut(int index, bool half_open) {
  const uint64_t who = half_open ? rng_.UniformInt(3) : 3;
  if (half_open) In(kLease, [this, index] { EndLease(index); });
  // A connection that is silent stays so: what it has swallowed must not be missing between other messages.
  if (who == 2) sessions_[static_cast<size_t>(index)].silent = true;
  const char* const why = "the connection is cut";
  if (who == 1 || who == 3) In(Delay(mean_delay_), [this, index, why] { LoseWorker(index, why); });
  if (who == 0 || who == 3) CutAtWorker(index, why);
}

void World::EndLease(int index) {
  CutAtWorker(index, "the lease ran out");
  LoseWorker(index, "the lease ran out");
}

void World::StopWorker(int index) {
  Agent& agent = agents_[static_cast<size_t>(index)];
  const int64_t length = Delay(2 * kSecond);
  agent.stopped_until = std::max(agent.stopped_until, now() + length);
  if (length < kLease || agent.session < 0) return;
  const int session = agent.session;
  In(kLease, [this, session] { LoseWorker(session, "the lease ran out"); });
  At(agent.stopped_until, [this, session] { CutAtWorker(session, "the lease ran out"); });
}

void World::Leave(int index) {
  Agent& agent = agents_[static_cast<size_t>(index)];
  Trace(agent.name, " leaves");
  agent.gone = true;
  agent.has_task = false;
  const int session = agent.session;
  agent.session = -1;
  if (session < 0) return;
  sessions_[static_cast<size_t>(session)].open = false;
  In(Delay(mean_delay_), [this, session] { LoseWorker(session, "it leaves"); });
}

void World::Respawn(int index) {
  Agent& agent = agents_[static_cast<size_t>(index)];
  if (agent.gone) return;
  Agent fresh;
  fresh.role = agent.role;
  fresh.name = agent.name;
  fresh.pid = ++pids_;
  fresh.life = agent.life + 1;
  const int session = agent.session;
  agent = std::move(fresh);
  if (session >= 0) {
    sessions_[static_cast<size_t>(session)].open = false;
    In(Delay(mean_delay_), [this, session] { LoseWorker(session, "its process died"); });
  }
  In(Delay(300 * kMillis), [this, index] { Connect(index); });
}

void World::Send(int index, WorkerMessage message) {
  const int number = agents_[static_cast<size_t>(index)].session;
  if (number < 0 || sessions_[static_cast<size_t>(number)].silent) return;
  Note(static_cast<uint64_t>(number) * 32 + static_cast<uint64_t>(message.message_case()));
  Session& session = sessions_[static_cast<size_t>(number)];
  session.to_coordinator_nanos =
      std::max(session.to_coordinator_nanos + 1, now() + Delay(mean_delay_));
  At(session.to_coordinator_nanos, [this, number, message = std::move(message)]() mutable {
    Session& to = sessions_[static_cast<size_t>(number)];
    if (!to.coordinator_open || !to.process->alive) return;
    to.inbox.push_back(std::move(message));
    TakeInbox(number);
  });
}

void World::Receive(int number, const CoordinatorMessage& message) {
  Session& session = sessions_[static_cast<size_t>(number)];
  if (!session.open) return;
  Agent* const agent = &agents_[static_cast<size_t>(session.agent)];
  if (agent->session != number) return;
  if (now() < agent->stopped_until) {
    At(agent->stopped_until + 1, [this, number, message] { Receive(number, message); });
    return;
  }
  const bool learns = agent->role == Hello::LEARNER;
  if (message.has_start_task()) {
    BeginTask(agent, message.start_task());
  } else if (message.has_close_task()) {
    agent->has_task = false;
    agent->sent.clear();  // Nobody wants these data.
  } else if (message.has_end_run()) {
    Leave(session.agent);
  } else if (!learns) {
    agent->collector.Take(message);
    const CollectorDataAck& ack = message.collector_data_ack();
    while (!agent->sent.empty() && agent->sent.begin()->first <= ack.sequence()) {
      for (const Row& row : agent->sent.begin()->second) NoteAcknowledged(*session.process, row);
      agent->sent.erase(agent->sent.begin());
    }
    ActSoon(session.agent, 5 * kMillis);
  } else if (agent->has_task && message.has_learner_data() &&
             message.learner_data().task_id() == agent->task.learner().task_id()) {
    agent->demands.Take(message.learner_data());
    ActSoon(session.agent, 20 * kMillis);
  }
}

void World::BeginTask(Agent* agent, const StartTask& start) {
  const int index = static_cast<int>(agent - agents_.data());
  agent->task = start;
  agent->has_task = true;
  agent->progress = {};
  agent->chunks_left = static_cast<int64_t>(rng_.UniformInt(6));
  agent->sent.clear();
  agent->drawn.clear();
  if (agent->role == Hello::LEARNER) {
    agent->demands.DropAnswers();
    agent->demands_under_way = 0;
    agent->version = start.learner().first_version();
    WorkerMessage started;
    started.mutable_task_started()->set_task_id(start.learner().task_id());
    Send(index, started);
  } else {
    agent->collector.Start(start.collector());
    agent->version = 0;
  }
  ActSoon(index, 30 * kMillis);
}

void World::NoteAcknowledged(const Process& process, const Row& row) {
  acknowledged_.insert(row);
  const std::vector<Row>& pushed = process.pushed;
  if (std::find(pushed.rbegin(), pushed.rend(), row) != pushed.rend()) return;
  Break("no acknowledged row is lost",
        absl::StrCat("row ", row.second, " of ", ChunkKey(row.first), " was never pushed"));
}

void World::ActSoon(int index, int64_t mean) {
  Agent& agent = agents_[static_cast<size_t>(index)];
  if (agent.busy) return;
  agent.busy = true;
  const int session = agent.session;
  In(Delay(mean), [this, index, session] {
    Agent& acting = agents_[static_cast<size_t>(index)];
    if (acting.session != session) return;
    acting.busy = false;
    Act(index);
  });
}

void World::Act(int index) {
  Agent* const agent = &agents_[static_cast<size_t>(index)];
  if (!agent->has_task || agent->session < 0) return;
  if (now() < agent->stopped_until) {
    ActSoon(index, agent->stopped_until - now());
    return;
  }
  if (agent->role == Hello::LEARNER) {
    Learn(agent);
  } else {
    Collect(agent);
  }
}

void World::MakeRows() {
  const SpecPtr spec = MakeSpec({Scalar(kColumnCollectIter, DType::kInt64)}).value();
  for (int64_t size = 1; size <= kMaxRows; ++size) {
    BatchBuilder builder = BatchBuilder::Create(spec, size).value();
    for (int64_t& collect_iter : builder.column<int64_t>(0)) collect_iter = -1;
    SegmentBatch& data = rows_.emplace_back();
    data.rows = std::move(builder).Seal(size);
    data.segments = {{0, 0, 0, size, SegmentEnd::kTerminated}};
  }
}

void World::Collect(Agent* agent) {
  const int index = static_cast<int>(agent - agents_.data());
  const CollectorTask& task = agent->task.collector();
  const PolicyVersion* const newer = agent->collector.NewerPolicy(0, agent->version);
  if (newer != nullptr) agent->version = newer->version();
  if (!task.eval_flag() && agent->chunks_left > 0) {
    // An acknowledgement makes it go on.
    if (!agent->collector.MayAnnounce() || !agent->collector.MayGoOn()) return;
    --agent->chunks_left;
    const int64_t chunk = ChunkNumber(agent->number, agent->chunk++);
    store_.insert(ChunkKey(chunk));
    const int64_t rows = 1 + static_cast<int64_t>(rng_.UniformInt(kMaxRows));
    agent->progress.cur_step += rows;
    true_steps_ += rows;
    WorkerMessage message;
    CollectorData* const data = message.mutable_collector_data();
    *data = agent->collector.Announce(
        EncodeItems(rows_[static_cast<size_t>(rows - 1)], chunk).value(), agent->progress);
    std::vector<Row>& sent = agent->sent[data->sequence()];
    for (int64_t row = 0; row < rows; ++row) sent.emplace_back(chunk, row);
    agent->last_data = message.SerializeAsString();
    agent->last_data_number = agent->number;
    Send(index, std::move(message));
    ActSoon(index, 40 * kMillis);
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
  Send(index, std::move(message));
}

void World::Learn(Agent* agent) {
  const int index = static_cast<int>(agent - agents_.data());
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
    demand->set_batch_size(1 + static_cast<int64_t>(rng_.UniformInt(4)));
    demand->set_batches(1 + static_cast<int>(rng_.UniformInt(2)));
    demand->set_train_iter(checkpoint_);
    Send(index, std::move(message));
  }
  const bool goes_on = !agent->drawn.empty() || agent->demands.has_answer();
  if (goes_on || agent->demands_under_way < kDemands) ActSoon(index, 10 * kMillis);
}

void World::ReadBatch(Agent* agent) {
  const int index = static_cast<int>(agent - agents_.data());
  const auto [sequence, items] = std::move(agent->drawn.front());
  agent->drawn.pop_front();
  // Nobody waits for a learner whose session is over, or whose coordinator was replaced, or for the end of a run.
  const Session& session = sessions_[static_cast<size_t>(agent->session)];
  const bool counts = !over_ && session.coordinator_open && session.process->epoch == disk_.epoch();
  WorkerMessage bad;
  const Batch batch = DecodeBatch(items).value();
  for (const int64_t chunk : batch.column<int64_t>(kColumnChunk)) {
    if (store_.count(ChunkKey(chunk)) > 0) continue;
    Trace(agent->name, " misses ", ChunkKey(chunk));
    if (counts && !Has(ChunkKey(chunk)))
      Break("no data are deleted that somebody reads", ChunkKey(chunk));
    BadChunk* const told = bad.mutable_bad_chunks()->add_chunk();
    told->set_chunk(chunk);
    told->set_gone(true);
  }
  if (bad.has_bad_chunks()) {
    bad.mutable_bad_chunks()->set_task_id(agent->task.learner().task_id());
    Send(index, std::move(bad));
  }
  agent->demands.CountRead(sequence);
  ++checkpoint_;
  WorkerMessage info;
  info.mutable_learner_info()->set_task_id(agent->task.learner().task_id());
  info.mutable_learner_info()->set_learner_step(checkpoint_);
  Send(index, std::move(info));
  if (rng_.UniformInt(4) == 0) PublishPolicy(agent);
}

void World::PublishPolicy(Agent* agent) {
  WorkerMessage message;
  PolicyVersion* const version = message.mutable_policy_version();
  version->set_policy_id(agent->task.learner().policy_id());
  version->set_version(agent->version++);
  version->set_train_iter(checkpoint_);
  version->set_key(PolicyKey(version->policy_id(), version->version(), agent->number));
  store_.insert(version->key());
  Send(static_cast<int>(agent - agents_.data()), std::move(message));
}

}  // namespace internal_simulation
}  // namespace ding
