#include "ding_worker/replay_buffer/testing/test_streams.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

std::vector<FieldSpec> ObsFields(bool stacks) {
  FieldSpec picture = Scalar("obs/picture", DType::kUint8);
  picture.shape = {3};
  if (!stacks) return {Box("obs/place", {4}), picture};
  FieldSpec frames = Scalar("obs/frames", DType::kUint8);
  frames.shape = {3, 2, 2};
  frames.frame_stack_axis = 0;
  FieldSpec strip = Box("obs/strip", {2, 4});
  strip.frame_stack_axis = 1;
  return {Box("obs/place", {4}), picture, frames, strip};
}

SpecPtr MakeRowSpec(bool stacks) {
  std::vector<FieldSpec> fields = ObsFields(stacks);
  fields.push_back(Discrete("action", 1000));
  fields.push_back(Scalar("reward", DType::kFloat32));
  fields.push_back(Scalar("done_once", DType::kBool));
  fields.push_back(Scalar("collect_iter", DType::kInt64));
  return MakeSpec(std::move(fields)).value();
}

const SpecPtr& ItemSpec() {
  static const auto* const spec = new SpecPtr(
      MakeSpec({Scalar("chunk", DType::kInt64), Scalar("row", DType::kInt64),
                Scalar("length", DType::kInt64), Scalar("collect_iter", DType::kInt64),
                Scalar("priority", DType::kFloat32), Scalar("collector", DType::kInt32)})
          .value());
  return *spec;
}

// Whether both observations of row `row` have the right newest frame, and both of their stacked
// fields show the same frames.
bool AreFramesRight(const Batch& batch, int64_t row) {
  for (const std::string obs : {"obs", "next_obs"}) {
    const float* const place = &batch.column<float>(obs + "/place")[4 * row];
    const float* const strip = &batch.column<float>(obs + "/strip")[8 * row];
    const uint8_t* const frames = &batch.column<uint8_t>(obs + "/frames")[12 * row];
    if (strip[3] != 1000 * place[0] + place[1] + 1) return false;
    for (int i = 0; i < 12; ++i) {
      const auto frame = static_cast<int64_t>(strip[1 + i / 4]);
      if (frames[i] != TestStreams::Pixel(frame, i % 4)) return false;
    }
    for (int i = 0; i < 4; ++i) {
      if (strip[4 + i] != -strip[i]) return false;
    }
  }
  return true;
}

}  // namespace

const SpecPtr& TestStreams::RowSpec(bool stacks) {
  static const auto* const specs = new SpecPtr[]{MakeRowSpec(false), MakeRowSpec(true)};
  return specs[stacks];
}

const SpecPtr& TestStreams::ObsSpec(bool stacks) {
  static const auto* const specs =
      new SpecPtr[]{MakeSpec(ObsFields(false)).value(), MakeSpec(ObsFields(true)).value()};
  return specs[stacks];
}

uint8_t TestStreams::Pixel(int64_t frame, int64_t index) {
  return static_cast<uint8_t>(37 * frame + 11 * index);
}

TestStreams::Cursor& TestStreams::CursorOf(int64_t stream) {
  const auto [it, inserted] = cursors_.try_emplace(stream);
  if (inserted) {
    it->second = {stream, first_step_, 0, 0, {}};
    NextFrame(&it->second);
  }
  return it->second;
}

void TestStreams::Skip(int64_t stream, int64_t steps) {
  Cursor& at = CursorOf(stream);
  for (int64_t i = 0; i < steps; ++i) {
    ++at.step;
    ++at.offset;
    NextFrame(&at);
  }
}

void TestStreams::NextFrame(Cursor* at) {
  const int64_t frame = 1000 * at->stream + at->step + 1;
  if (at->offset == 0) {
    if (at->episode % 3 != 2) std::fill_n(at->frames, 4, at->episode % 3 == 0 ? 0 : frame);
  } else if (at->step % 13 == 4) {
    std::fill_n(at->frames, 4, frame);
  } else {
    std::copy_n(at->frames + 1, 3, at->frames);
  }
  if (at->step % 11 == 6) at->frames[at->step % 3] += 500;
  at->frames[3] = frame;
}

void TestStreams::WriteObs(const Cursor& at, const RowRef& row) const {
  const int64_t numbers[] = {at.stream, at.step, at.episode, at.offset};
  for (int i = 0; i < 4; ++i) row.field<float>(0)[i] = static_cast<float>(numbers[i]);
  for (int i = 0; i < 3; ++i) {
    row.field<uint8_t>(1)[i] = static_cast<uint8_t>(7 * at.stream + 3 * at.step + at.episode + i);
  }
  if (!stacks_) return;
  for (int i = 0; i < 12; ++i) row.field<uint8_t>(2)[i] = Pixel(at.frames[1 + i / 4], i % 4);
  for (int i = 0; i < 4; ++i) {
    row.field<float>(3)[i] = static_cast<float>(at.frames[i]);
    row.field<float>(3)[4 + i] = -static_cast<float>(at.frames[i]);
  }
}

SegmentBatch TestStreams::Make(const std::vector<SegmentPlan>& plans) {
  int64_t rows = 0;
  for (const SegmentPlan& plan : plans) rows += plan.length;
  BatchBuilder batch = BatchBuilder::Create(RowSpec(stacks_), rows).value();
  BatchBuilder final_obs =
      BatchBuilder::Create(ObsSpec(stacks_), static_cast<int64_t>(plans.size())).value();
  const int first = ObsSpec(stacks_)->size();  // the first of the fields that are not observations
  SegmentBatch data;
  int64_t row = 0;
  for (const SegmentPlan& plan : plans) {
    Cursor& at = CursorOf(plan.stream);
    data.segments.push_back({plan.stream, at.step, row, plan.length, plan.end});
    for (int64_t i = 0; i < plan.length; ++i, ++row) {
      const RowRef to = batch.view().row(row);
      WriteObs(at, to);
      to.field<int64_t>(first)[0] = (31 * at.stream + at.step) % 1000;
      to.field<float>(first + 1)[0] =
          0.25f * static_cast<float>((13 * at.stream + 5 * at.step) % 17) - 1;
      to.field<uint8_t>(first + 2)[0] = i + 1 == plan.length && plan.end != SegmentEnd::kCut;
      to.field<int64_t>(first + 3)[0] = rows_made_++;
      ++at.step;
      ++at.offset;
      NextFrame(&at);
    }
    WriteObs(at, final_obs.view().row(static_cast<int64_t>(data.segments.size()) - 1));
    if (plan.end != SegmentEnd::kCut) {
      ++at.episode;
      at.offset = 0;
      NextFrame(&at);
    }
  }
  data.rows = std::move(batch).Seal(rows);
  data.final_obs = std::move(final_obs).Seal(static_cast<int64_t>(plans.size()));
  return data;
}

SegmentBatch RandomPush(TestStreams* streams, Rng* rng, int64_t max_length) {
  std::vector<SegmentPlan> plans;
  const auto segments = static_cast<int64_t>(1 + rng->UniformInt(4));
  for (int64_t i = 0; i < segments; ++i) {
    SegmentPlan plan;
    plan.stream = static_cast<int64_t>(rng->UniformInt(5)) - 1;
    plan.length = static_cast<int64_t>(1 + rng->UniformInt(static_cast<uint64_t>(max_length)));
    const uint64_t end = rng->UniformInt(6);
    if (end == 0) plan.end = SegmentEnd::kTerminated;
    if (end == 1) plan.end = SegmentEnd::kTruncated;
    if (rng->UniformInt(16) == 0) streams->Skip(plan.stream, 2);
    plans.push_back(plan);
  }
  return streams->Make(plans);
}

absl::Status CheckRows(const Batch& batch) {
  const auto place = batch.column<float>("obs/place");
  const auto next = batch.column<float>("next_obs/place");
  const auto picture = batch.column<uint8_t>("next_obs/picture");
  const auto action = batch.column<int64_t>("action");
  for (int64_t i = 0; i < batch.rows(); ++i) {
    const float* const a = &place[4 * i];
    const float* const b = &next[4 * i];
    // Stream, step, episode, steps into the episode.
    const bool follows = b[0] == a[0] && b[1] == a[1] + 1 && b[2] == a[2] && b[3] == a[3] + 1;
    const bool right_columns =
        action[i] == static_cast<int64_t>(31 * a[0] + a[1]) % 1000 &&
        picture[3 * i] == static_cast<uint8_t>(static_cast<int64_t>(7 * b[0] + 3 * b[1] + b[2]));
    const bool right_frames =
        !batch.spec().Find("obs/frames").has_value() || AreFramesRight(batch, i);
    if (follows && right_columns && right_frames) continue;
    return absl::InternalError(absl::StrCat(
        "row ", i, " is {", absl::StrJoin(absl::MakeSpan(a, 4), ", "), "}, next {",
        absl::StrJoin(absl::MakeSpan(b, 4), ", "), "}, action ", action[i], ", next picture ",
        static_cast<int>(picture[3 * i]), right_frames ? "" : ", with frames of others"));
  }
  return absl::OkStatus();
}

SegmentBatch TestItems(const std::vector<Item>& items, int64_t collect_iter) {
  const auto size = static_cast<int64_t>(items.size());
  BatchBuilder rows = BatchBuilder::Create(ItemSpec(), size).value();
  for (size_t i = 0; i < items.size(); ++i) {
    rows.column<int64_t>(0)[i] = items[i].chunk;
    rows.column<int64_t>(1)[i] = items[i].row;
    rows.column<int64_t>(2)[i] = items[i].length;
    rows.column<int64_t>(3)[i] = collect_iter;
    rows.column<float>(4)[i] = 1;
    rows.column<int32_t>(5)[i] = static_cast<int32_t>(items[i].chunk % 10);
  }
  return MakeItems(std::move(rows).Seal(size)).value();
}

SegmentBatch TestItemsOfChunk(int64_t chunk, int64_t items, int64_t collect_iter) {
  std::vector<Item> made;
  for (int64_t i = 0; i < items; ++i) made.push_back({chunk, 4 * i, 4});
  return TestItems(made, collect_iter);
}

}  // namespace ding
