// SPDX-License-Identifier: Apache-2.0
#include "kernel/btf_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/unique_fd.h"

namespace forestall::kernel {
namespace {

constexpr const char* kKernelBtf = "/sys/kernel/btf/vmlinux";
constexpr std::size_t kTypicalTypeBytes = 24;

}  // namespace

std::size_t btf_bytes_of(const btf_type& type) {
  const std::size_t members = BTF_INFO_VLEN(type.info);
  switch (BTF_INFO_KIND(type.info)) {
    case BTF_KIND_PTR:
    case BTF_KIND_FWD:
    case BTF_KIND_TYPEDEF:
    case BTF_KIND_VOLATILE:
    case BTF_KIND_CONST:
    case BTF_KIND_RESTRICT:
    case BTF_KIND_FUNC:
    case BTF_KIND_FLOAT:
    case BTF_KIND_TYPE_TAG: return sizeof(btf_type);
    case BTF_KIND_INT: return sizeof(btf_type) + sizeof(__u32);
    case BTF_KIND_ARRAY: return sizeof(btf_type) + sizeof(btf_array);
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION: return sizeof(btf_type) + members * sizeof(btf_member);
    case BTF_KIND_ENUM: return sizeof(btf_type) + members * sizeof(btf_enum);
    case BTF_KIND_ENUM64: return sizeof(btf_type) + members * sizeof(btf_enum64);
    case BTF_KIND_FUNC_PROTO: return sizeof(btf_type) + members * sizeof(btf_param);
    case BTF_KIND_VAR: return sizeof(btf_type) + sizeof(btf_var);
    case BTF_KIND_DATASEC: return sizeof(btf_type) + members * sizeof(btf_var_secinfo);
    case BTF_KIND_DECL_TAG: return sizeof(btf_type) + sizeof(btf_decl_tag);
    default: return 0;
  }
}

void BtfImage::Unmap::operator()(void* address) const {
  ::munmap(address, size);
}

BtfImage::Memory BtfImage::anonymous(std::size_t size) {
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return Memory(address != MAP_FAILED ? address : nullptr, Unmap{size});
}

BtfImage::Memory BtfImage::read(int fd, std::size_t size) {
  Memory memory = anonymous(size);
  std::size_t filled = 0;
  while (memory && filled < size) {
    const ssize_t got = ::read(fd, static_cast<char*>(memory.get()) + filled, size - filled);
    if (got <= 0) return Memory(nullptr, Unmap{});
    filled += static_cast<std::size_t>(got);
  }
  return memory;
}

BtfImage BtfImage::of_kernel() {
  const UniqueFd file(::open(kKernelBtf, O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size <= 0) return {};
  const auto size = static_cast<std::size_t>(status.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped != MAP_FAILED) return BtfImage(Memory(mapped, Unmap{size}));
  return BtfImage(read(file.get(), size));
}

BtfImage BtfImage::copy_of(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  Memory memory = anonymous(bytes.size());
  if (memory) std::memcpy(memory.get(), bytes.data(), bytes.size());
  return BtfImage(std::move(memory));
}

BtfImage::BtfImage(Memory memory) : memory_(std::move(memory)) {
  if (!memory_) return;
  const auto* bytes = static_cast<const std::byte*>(memory_.get());
  if (parse({bytes, memory_.get_deleter().size})) return;
  offsets_.clear();
  memory_.reset();
}

bool BtfImage::parse(std::span<const std::byte> bytes) {
  btf_header header{};
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != BTF_MAGIC || header.version != BTF_VERSION || header.hdr_len > bytes.size() ||
      header.type_off % alignof(btf_type) != 0 || header.hdr_len % alignof(btf_type) != 0) {
    return false;
  }
  const auto body = bytes.subspan(header.hdr_len);
  const auto fits = [&body](std::uint64_t from, std::uint64_t size) {
    return from + size <= body.size();
  };
  if (!fits(header.type_off, header.type_len) || !fits(header.str_off, header.str_len)) {
    return false;
  }
  types_ = body.data() + header.type_off;
  names_ = reinterpret_cast<const char*>(body.data() + header.str_off);
  names_size_ = header.str_len;
  if (names_size_ == 0 || names_[names_size_ - 1] != '\0') return false;
  offsets_.reserve(header.type_len / kTypicalTypeBytes);
  offsets_.push_back(0);  // void
  for (std::size_t at = 0; at < header.type_len;) {
    if (header.type_len - at < sizeof(btf_type)) return false;
    const std::size_t size = btf_bytes_of(*reinterpret_cast<const btf_type*>(types_ + at));
    if (size == 0 || size > header.type_len - at) return false;
    offsets_.push_back(static_cast<std::uint32_t>(at));
    at += size;
  }
  return true;
}

const btf_type* BtfImage::type(std::uint32_t id) const {
  if (id == 0 || id >= offsets_.size()) return nullptr;
  return reinterpret_cast<const btf_type*>(types_ + offsets_[id]);
}

}  // namespace forestall::kernel
