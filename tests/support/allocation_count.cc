// SPDX-License-Identifier: Apache-2.0
#include "support/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> allocations{0};

}  // namespace

#if defined(__SANITIZE_THREAD__) && defined(__clang__)

// clang's TSan refuses a second operator new. It calls this for each allocation, malloc() included.
extern "C" void __sanitizer_malloc_hook(const volatile void*, std::size_t) {
  allocations.fetch_add(1, std::memory_order_relaxed);
}

#else

// Outside of ASan, all other forms of operator new call these. ASan replaces each form separately,
// so every form that the library uses is here, and none is freed by another's delete. In a separate
// file, so that no compiler inlines them and warns that free() does not match new.
void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}

void* operator new[](std::size_t size) {
  return operator new(size);
}

void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size, std::nothrow);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

void operator delete[](void* memory) noexcept {
  std::free(memory);
}

void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

#endif

namespace forestall::test {

std::uint64_t allocation_count() {
  return allocations.load(std::memory_order_relaxed);
}

}  // namespace forestall::test
