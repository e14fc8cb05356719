// SPDX-License-Identifier: Apache-2.0
#include "recording/chunk.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace forestall::recording {
namespace {

// zstd's default level: entries shrink to a fifteenth at 250 MB/s; the next levels take twice the
// time and save a tenth more.
constexpr int kLevel = 3;

template <typename T>
T saturated(std::uint64_t value) {
  return static_cast<T>(std::min<std::uint64_t>(value, std::numeric_limits<T>::max()));
}

std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

// Writes header and payload of a chunk to `out` and completes `header`.
void seal_into(std::string& out, ZSTD_CCtx* zstd, ChunkHeader& header, std::string_view raw) {
  out.resize(kChunkHeaderSize + ZSTD_compressBound(raw.size()));
  char* const payload = out.data() + kChunkHeaderSize;
  std::size_t stored = raw.size();
  // If zstd has no memory for its state, or compression does not save space, the payload is plain.
  if (zstd != nullptr) {
    stored = ZSTD_compressCCtx(zstd, payload, out.size() - kChunkHeaderSize, raw.data(), raw.size(),
                               kLevel);
  }
  if (ZSTD_isError(stored) != 0 || stored >= raw.size()) {
    header.flags |= kChunkPlain;
    stored = raw.size();
    std::memcpy(payload, raw.data(), raw.size());
  }
  header.raw_size = static_cast<std::uint32_t>(raw.size());
  header.stored_size = static_cast<std::uint32_t>(stored);
  const auto bytes = encode(header, {payload, stored});
  std::memcpy(out.data(), bytes.data(), bytes.size());
  out.resize(kChunkHeaderSize + stored);
}

}  // namespace

struct ChunkBuilder::Zstd {
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> state{ZSTD_createCCtx(), ZSTD_freeCCtx};
};

ChunkBuilder::ChunkBuilder() = default;
ChunkBuilder::~ChunkBuilder() = default;
ChunkBuilder::ChunkBuilder(ChunkBuilder&&) noexcept = default;
ChunkBuilder& ChunkBuilder::operator=(ChunkBuilder&&) noexcept = default;

void ChunkBuilder::note_loss(std::uint64_t entries, std::uint64_t bytes) {
  header_.lost_entries = saturated<std::uint32_t>(header_.lost_entries + entries);
  header_.lost_bytes += bytes;
}

bool ChunkBuilder::fits(std::size_t entry_size) const {
  return entry_size <= kEntryMax &&
         raw_.size() + varint_size(entry_size) + entry_size <= kChunkRawMax;
}

void ChunkBuilder::append(std::string_view entry, MonotonicTime at) {
  append_varint(raw_, entry.size());
  raw_.append(entry);
  if (header_.count++ == 0) header_.first_ns = header_.last_ns = to_ns(at);
  // Later entries may have earlier times (the outcome of a kill), so the chunk's range covers all
  // of them. A chunk with a key starts at the key, because a seek to an earlier time needs an
  // earlier chunk.
  if (!header_.has(kChunkKey)) header_.first_ns = std::min(header_.first_ns, to_ns(at));
  header_.last_ns = std::max(header_.last_ns, to_ns(at));
}

ChunkBuilder::Sealed ChunkBuilder::seal(std::uint32_t sequence) {
  if (zstd_ == nullptr) zstd_ = std::make_unique<Zstd>();
  ChunkHeader header = header_;
  header.sequence = sequence;
  seal_into(sealed_, zstd_->state.get(), header, raw_);
  return {sealed_, header};
}

void ChunkBuilder::clear() {
  header_ = {};
  raw_.clear();
}

std::string seal_index(const std::vector<ChunkPlace>& index, std::uint32_t sequence) {
  ChunkHeader header;
  header.flags = kChunkIndex;
  header.sequence = sequence;
  if (!index.empty()) {
    header.first_ns = index.front().first_ns;
    header.last_ns = index.back().last_ns;
  }
  header.count = static_cast<std::uint32_t>(index.size());
  std::string out;
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> zstd(ZSTD_createCCtx(), ZSTD_freeCCtx);
  seal_into(out, zstd.get(), header, encode_index(index));
  return out;
}

struct ChunkDecoder::Zstd {
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> state{ZSTD_createDCtx(), ZSTD_freeDCtx};
};

ChunkDecoder::ChunkDecoder() : zstd_(std::make_unique<Zstd>()) {}
ChunkDecoder::~ChunkDecoder() = default;
ChunkDecoder::ChunkDecoder(ChunkDecoder&&) noexcept = default;
ChunkDecoder& ChunkDecoder::operator=(ChunkDecoder&&) noexcept = default;

Result<std::string_view> ChunkDecoder::unpack(const ChunkHeader& header, std::string_view payload) {
  if (header.has(kChunkPlain)) {
    if (payload.size() != header.raw_size) return error("its size differs from the declared size");
    return payload;
  }
  // Checked before memory is allocated.
  if (ZSTD_getFrameContentSize(payload.data(), payload.size()) != header.raw_size) {
    return error("its size differs from the declared size");
  }
  raw_.resize(header.raw_size);
  const std::size_t size = ZSTD_decompressDCtx(zstd_->state.get(), raw_.data(), raw_.size(),
                                               payload.data(), payload.size());
  if (ZSTD_isError(size) != 0) return error(std::string("zstd: ") + ZSTD_getErrorName(size));
  if (size != raw_.size()) return error("its size differs from the declared size");
  return std::string_view(raw_);
}

std::optional<std::string_view> take_entry(std::string_view& raw) {
  std::string_view rest = raw;
  const auto size = take_varint(rest);
  if (!size || *size > rest.size()) return std::nullopt;
  const std::string_view entry = rest.substr(0, *size);
  raw = rest.substr(*size);
  return entry;
}

}  // namespace forestall::recording
