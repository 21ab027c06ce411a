/* How this processor reaches a die: its registers, and its memory, which lie in the processor's address space. */
#ifndef PLATFORM_H
#define PLATFORM_H

#include <stdint.h>

#ifndef DIE_REGISTERS
#define DIE_REGISTERS 0x90000000u /* where AXI4-Lite of the die is */
#endif
#ifndef DIE_MEMORY
#define DIE_MEMORY 0x40000000u /* where word 0 of its memory is */
#endif

static inline void register_write(uint32_t address, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)(DIE_REGISTERS + address) = value;
}

static inline uint32_t register_read(uint32_t address)
{
    return *(volatile uint32_t *)(uintptr_t)(DIE_REGISTERS + address);
}

static inline void memory_write(uint32_t word, uint32_t value)
{
    ((volatile uint32_t *)(uintptr_t)DIE_MEMORY)[word] = value;
}

static inline uint32_t memory_read(uint32_t word)
{
    return ((volatile uint32_t *)(uintptr_t)DIE_MEMORY)[word];
}

/* All accesses before it are done before any behind it. An interconnect that answers writes early needs more: read back
 * what was written last. */
static inline void memory_barrier(void)
{
    __sync_synchronize();
}

#endif
