// SPDX-License-Identifier: Apache-2.0
// A memory-mapped BPF array, which programs share. It is unmapped with the object.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

#include "base/result.h"

namespace forestall::kernel {

// The kernel rounds a value up to a multiple of 8 bytes, which T already is. Thread rule: as the
// owner's; what programs read or write at the same time needs atomics.
template <class T>
class MappedArray {
  static_assert(sizeof(T) % 8 == 0);

 public:
  // `fd` is a map with BPF_F_MMAPABLE and `count` entries; `name` is for errors.
  static Result<MappedArray> map(int fd, std::size_t count, const char* name) {
    void* address = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) return errno_error("mmap", name);
    return MappedArray(static_cast<T*>(address), count);
  }
  MappedArray(MappedArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  MappedArray& operator=(MappedArray&&) = delete;
  ~MappedArray() {
    if (data_ != nullptr) ::munmap(data_, count_ * sizeof(T));
  }

  [[nodiscard]] T* data() const { return data_; }

 private:
  MappedArray(T* data, std::size_t count) : data_(data), count_(count) {}
  T* data_;
  std::size_t count_;
};

}  // namespace forestall::kernel
