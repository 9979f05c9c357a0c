#include "ding_worker/metrics/mp4.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"

extern "C" {
#include "libavcodec/avcodec.h"
#include "libavformat/avformat.h"
#include "libavutil/opt.h"
#include "libswscale/swscale.h"
}

namespace ding {
namespace {

constexpr int kMaxSide = 16384;
constexpr int kIoBytes = 1 << 16;
// The conversion of colours reads whole vectors, also at the end of a picture.
constexpr size_t kReadBeyond = 64;
// Constant quality of H.264, from 0 (lossless) to 51: thin lines stay sharp.
constexpr char kQuality[] = "20";
constexpr int64_t kFallbackBitRate = 4'000'000;

absl::Status AvError(int error, absl::string_view what) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(error, text, sizeof(text));
  const std::string message = absl::StrCat("MP4: ", what, ": ", text);
  return error == AVERROR(ENOMEM) ? absl::ResourceExhaustedError(message)
                                  : absl::InternalError(message);
}

// The file in memory: the muxer goes back to fill in sizes.
struct MemoryFile {
  std::string bytes;
  size_t position = 0;
};

// What a muxer writes is const since FFmpeg 7.
#if LIBAVFORMAT_VERSION_MAJOR < 61
using WrittenByte = uint8_t;
#else
using WrittenByte = const uint8_t;
#endif

int WriteBytes(void* opaque, WrittenByte* from, int count) {
  auto* const file = static_cast<MemoryFile*>(opaque);
  const size_t size = static_cast<size_t>(count);
  if (file->bytes.size() < file->position + size) file->bytes.resize(file->position + size);
  std::memcpy(&file->bytes[file->position], from, size);
  file->position += size;
  return count;
}

int64_t SeekTo(void* opaque, int64_t offset, int whence) {
  auto* const file = static_cast<MemoryFile*>(opaque);
  const auto size = static_cast<int64_t>(file->bytes.size());
  if (whence == AVSEEK_SIZE) return size;
  if (whence == SEEK_CUR) offset += static_cast<int64_t>(file->position);
  if (whence == SEEK_END) offset += size;
  if (offset < 0 || offset > size) return AVERROR(EINVAL);
  file->position = static_cast<size_t>(offset);
  return offset;
}

int Even(int side) { return side + side % 2; }

}  // namespace

struct Mp4Encoder::File {
  ~File() {
    sws_freeContext(scaler);
    av_packet_free(&packet);
    av_frame_free(&frame);
    avcodec_free_context(&codec);
    if (format != nullptr) format->pb = nullptr;
    avformat_free_context(format);
    if (io != nullptr) av_freep(&io->buffer);
    avio_context_free(&io);
  }

  MemoryFile memory;
  AVIOContext* io = nullptr;
  AVFormatContext* format = nullptr;
  AVStream* stream = nullptr;  // of `format`
  AVCodecContext* codec = nullptr;
  AVFrame* frame = nullptr;
  AVPacket* packet = nullptr;
  SwsContext* scaler = nullptr;
  std::vector<uint8_t> even;  // the current picture with even sides
};

Mp4Encoder::Mp4Encoder(int frames_per_second)
    : frames_per_second_(std::min(std::max(frames_per_second, 1), 1000)) {}
Mp4Encoder::~Mp4Encoder() = default;

absl::Status Mp4Encoder::AddFrame(const Image& picture) {
  DING_RETURN_IF_ERROR(CheckVideoFrame("MP4", *this, picture, kMaxSide));
  if (frames_ == 0) DING_RETURN_IF_ERROR(Open(picture));
  const size_t row = 3 * static_cast<size_t>(width_);
  const size_t even_row = 3 * static_cast<size_t>(Even(width_));
  for (int y = 0; y < Even(height_); ++y) {
    const uint8_t* const from =
        picture.rgb.data() + row * static_cast<size_t>(std::min(y, height_ - 1));
    uint8_t* const to = file_->even.data() + even_row * static_cast<size_t>(y);
    std::memcpy(to, from, row);
    std::memcpy(to + even_row - 3, from + row - 3, 3);
  }
  int error = av_frame_make_writable(file_->frame);
  if (error < 0) return AvError(error, "a frame");
  const uint8_t* const planes[] = {file_->even.data()};
  const int strides[] = {static_cast<int>(even_row)};
  sws_scale(file_->scaler, planes, strides, 0, Even(height_), file_->frame->data,
            file_->frame->linesize);
  file_->frame->pts = frames_;
  DING_RETURN_IF_ERROR(Encode(/*flush=*/false));
  ++frames_;
  return absl::OkStatus();
}

absl::Status Mp4Encoder::Open(const Image& picture) {
  av_log_set_level(AV_LOG_ERROR);
  width_ = picture.width;
  height_ = picture.height;
  file_ = std::make_unique<File>();
  int error = avformat_alloc_output_context2(&file_->format, nullptr, "mp4", nullptr);
  if (error < 0) return AvError(error, "the format");
  DING_RETURN_IF_ERROR(OpenCodec());
  DING_RETURN_IF_ERROR(OpenFile());
  file_->even.resize(3 * static_cast<size_t>(Even(width_)) * static_cast<size_t>(Even(height_)) +
                     kReadBeyond);
  file_->packet = av_packet_alloc();
  file_->frame = av_frame_alloc();
  file_->scaler =
      sws_getContext(Even(width_), Even(height_), AV_PIX_FMT_RGB24, Even(width_), Even(height_),
                     AV_PIX_FMT_YUV420P, SWS_BILINEAR, nullptr, nullptr, nullptr);
  if (file_->packet == nullptr || file_->frame == nullptr || file_->scaler == nullptr) {
    return AvError(AVERROR(ENOMEM), "a frame");
  }
  file_->frame->format = AV_PIX_FMT_YUV420P;
  file_->frame->width = Even(width_);
  file_->frame->height = Even(height_);
  error = av_frame_get_buffer(file_->frame, 0);
  return error < 0 ? AvError(error, "a frame") : absl::OkStatus();
}

absl::Status Mp4Encoder::OpenCodec() {
  const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_H264);
  if (encoder == nullptr) encoder = avcodec_find_encoder(AV_CODEC_ID_MPEG4);
  if (encoder == nullptr) {
    return absl::UnimplementedError(
        "MP4: libavcodec has no encoder for H.264 or MPEG-4; use a .gif");
  }
  file_->codec = avcodec_alloc_context3(encoder);
  if (file_->codec == nullptr) return AvError(AVERROR(ENOMEM), "the encoder");
  AVCodecContext& codec = *file_->codec;
  codec.width = Even(width_);
  codec.height = Even(height_);
  codec.pix_fmt = AV_PIX_FMT_YUV420P;
  codec.time_base = {1, frames_per_second_};
  codec.framerate = {frames_per_second_, 1};
  codec.bit_rate = encoder->id == AV_CODEC_ID_H264 ? 0 : kFallbackBitRate;
  codec.thread_count = 1;  // The bytes may depend on the number of threads.
  codec.flags |= AV_CODEC_FLAG_BITEXACT;
  if ((file_->format->oformat->flags & AVFMT_GLOBALHEADER) != 0) {
    codec.flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  }
  // libx264 has this option; other encoders keep their own quality.
  av_opt_set(codec.priv_data, "crf", kQuality, 0);
  const int error = avcodec_open2(&codec, encoder, nullptr);
  return error < 0 ? AvError(error, absl::StrCat("the encoder ", encoder->name)) : absl::OkStatus();
}

absl::Status Mp4Encoder::OpenFile() {
  AVFormatContext& format = *file_->format;
  file_->stream = avformat_new_stream(&format, nullptr);
  auto* const buffer = static_cast<unsigned char*>(av_malloc(kIoBytes));
  if (file_->stream == nullptr || buffer == nullptr) return AvError(AVERROR(ENOMEM), "the file");
  file_->io = avio_alloc_context(buffer, kIoBytes, /*write_flag=*/1, &file_->memory, nullptr,
                                 WriteBytes, SeekTo);
  if (file_->io == nullptr) return AvError(AVERROR(ENOMEM), "the file");
  format.pb = file_->io;
  format.flags |= AVFMT_FLAG_BITEXACT;  // no time of creation
  file_->stream->time_base = file_->codec->time_base;
  int error = avcodec_parameters_from_context(file_->stream->codecpar, file_->codec);
  if (error >= 0) error = avformat_write_header(&format, nullptr);
  return error < 0 ? AvError(error, "the header") : absl::OkStatus();
}

absl::Status Mp4Encoder::Encode(bool flush) {
  int error = avcodec_send_frame(file_->codec, flush ? nullptr : file_->frame);
  if (error < 0) return AvError(error, "a frame");
  while (true) {
    error = avcodec_receive_packet(file_->codec, file_->packet);
    if (error == AVERROR(EAGAIN) || error == AVERROR_EOF) return absl::OkStatus();
    if (error < 0) return AvError(error, "a frame");
    file_->packet->duration = 1;
    av_packet_rescale_ts(file_->packet, file_->codec->time_base, file_->stream->time_base);
    file_->packet->stream_index = file_->stream->index;
    error = av_interleaved_write_frame(file_->format, file_->packet);
    if (error < 0) return AvError(error, "a frame");
  }
}

absl::StatusOr<std::string> Mp4Encoder::Finish() {
  if (frames_ == 0) return absl::FailedPreconditionError("MP4: no picture was added");
  DING_RETURN_IF_ERROR(Encode(/*flush=*/true));
  const int error = av_write_trailer(file_->format);
  if (error < 0) return AvError(error, "the end of the file");
  avio_flush(file_->io);
  return std::move(file_->memory.bytes);
}

}  // namespace ding
