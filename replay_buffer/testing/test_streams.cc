#include "ding_worker/replay_buffer/testing/test_streams.h"

#include <utility>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/dtype.h"

namespace ding {
namespace {

std::vector<FieldSpec> ObsFields() {
  FieldSpec picture = Scalar("obs/picture", DType::kUint8);
  picture.shape = {3};
  return {Box("obs/place", {4}), picture};
}

SpecPtr MakeRowSpec() {
  std::vector<FieldSpec> fields = ObsFields();
  fields.push_back(Discrete("action", 1000));
  fields.push_back(Scalar("reward", DType::kFloat32));
  fields.push_back(Scalar("done_once", DType::kBool));
  fields.push_back(Scalar("collect_iter", DType::kInt64));
  return MakeSpec(std::move(fields)).value();
}

}  // namespace

const SpecPtr& TestStreams::RowSpec() {
  static const auto* const spec = new SpecPtr(MakeRowSpec());
  return *spec;
}

const SpecPtr& TestStreams::ObsSpec() {
  static const auto* const spec = new SpecPtr(MakeSpec(ObsFields()).value());
  return *spec;
}

TestStreams::Cursor& TestStreams::CursorOf(int64_t stream) {
  const auto [it, inserted] = cursors_.try_emplace(stream);
  if (inserted) it->second = {stream, first_step_, 0, 0};
  return it->second;
}

void TestStreams::Skip(int64_t stream, int64_t steps) {
  CursorOf(stream).step += steps;
  CursorOf(stream).offset += steps;
}

void TestStreams::WriteObs(const Cursor& at, const RowRef& row) {
  const int64_t numbers[] = {at.stream, at.step, at.episode, at.offset};
  for (int i = 0; i < 4; ++i) row.field<float>(0)[i] = static_cast<float>(numbers[i]);
  for (int i = 0; i < 3; ++i) {
    row.field<uint8_t>(1)[i] = static_cast<uint8_t>(7 * at.stream + 3 * at.step + at.episode + i);
  }
}

SegmentBatch TestStreams::Make(const std::vector<SegmentPlan>& plans) {
  int64_t rows = 0;
  for (const SegmentPlan& plan : plans) rows += plan.length;
  BatchBuilder batch = BatchBuilder::Create(RowSpec(), rows).value();
  BatchBuilder final_obs =
      BatchBuilder::Create(ObsSpec(), static_cast<int64_t>(plans.size())).value();
  SegmentBatch data;
  int64_t row = 0;
  for (const SegmentPlan& plan : plans) {
    Cursor& at = CursorOf(plan.stream);
    data.segments.push_back({plan.stream, at.step, row, plan.length, plan.end});
    for (int64_t i = 0; i < plan.length; ++i, ++row, ++at.step, ++at.offset) {
      const RowRef to = batch.view().row(row);
      WriteObs(at, to);
      to.field<int64_t>(2)[0] = (31 * at.stream + at.step) % 1000;
      to.field<float>(3)[0] = 0.25f * static_cast<float>((13 * at.stream + 5 * at.step) % 17) - 1;
      to.field<uint8_t>(4)[0] = i + 1 == plan.length && plan.end != SegmentEnd::kCut;
      to.field<int64_t>(5)[0] = rows_made_++;
    }
    WriteObs(at, final_obs.view().row(static_cast<int64_t>(data.segments.size()) - 1));
    if (plan.end != SegmentEnd::kCut) {
      ++at.episode;
      at.offset = 0;
    }
  }
  data.rows = std::move(batch).Seal(rows);
  data.final_obs = std::move(final_obs).Seal(static_cast<int64_t>(plans.size()));
  return data;
}

}  // namespace ding
