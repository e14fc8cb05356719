// SPDX-License-Identifier: Apache-2.0
// How a tenant's process takes memory.
#pragma once

#include <cstdint>

#include "hostile/tenant.h"

namespace forestall::test {

// Takes the memory and returns; a runaway never returns.
void commit_offence(Offence offence, std::int64_t amount, const TenantPlace& place);
// The same in a thread, after the exit of the thread group's leader.
[[noreturn]] void offend_without_leader(Offence offence, std::int64_t amount,
                                        const TenantPlace& place, int lives);
// Waits until the test ends the round or dies, then exits.
[[noreturn]] void wait_for_end(int lives);

}  // namespace forestall::test
