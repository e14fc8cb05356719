// SPDX-License-Identifier: Apache-2.0
// The types of a BTF file, by id, without a copy of them.
#pragma once

#include <linux/btf.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace forestall::kernel {

// Immutable; any thread. Without types if the bytes are no BTF of this machine's byte order, or
// have a kind of type that this code does not support.
class BtfImage {
 public:
  BtfImage() = default;
  // Of the running kernel: mapped since Linux 6.16, read before. libbpf's parser reads all bytes
  // by stdio and copies them, which takes several times longer and twice the memory.
  static BtfImage of_kernel();
  static BtfImage copy_of(std::span<const std::byte> bytes);

  [[nodiscard]] bool valid() const { return !offsets_.empty(); }
  // Ids are below this; id 0 is void.
  [[nodiscard]] std::uint32_t type_count() const {
    return static_cast<std::uint32_t>(offsets_.size());
  }
  // Null: there is no such type.
  [[nodiscard]] const btf_type* type(std::uint32_t id) const;
  // Empty: there is no such name.
  [[nodiscard]] const char* name(std::uint32_t offset) const {
    return offset < names_size_ ? names_ + offset : "";
  }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(void* address) const;
  };
  using Memory = std::unique_ptr<void, Unmap>;

  explicit BtfImage(Memory memory);
  static Memory anonymous(std::size_t size);
  static Memory read(int fd, std::size_t size);
  [[nodiscard]] bool parse(std::span<const std::byte> bytes);

  Memory memory_;
  const std::byte* types_ = nullptr;
  const char* names_ = nullptr;
  std::uint32_t names_size_ = 0;
  std::vector<std::uint32_t> offsets_;  // of each type in types_, by id
};

// With its members; 0: of an unsupported kind.
[[nodiscard]] std::size_t btf_bytes_of(const btf_type& type);

}  // namespace forestall::kernel
