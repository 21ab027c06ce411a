/* A product of two matrices of 4 x 4 on one die of FP32, without a driver, an operating system or a C library.
 *
 *     plinth header ndp-tiny --out die.h
 *     cc -std=c99 -DDIE_REGISTERS=0x90000000u -DDIE_MEMORY=0x40000000u -c gemm.c
 *
 * Its accesses are the worked example of docs/programming.md. The die has been in reset; its memory is not cached, or
 * the cache is written back before START and thrown away before the result is read. */
#include "die.h"
#ifdef PLATFORM
#include PLATFORM
#else
#include "platform.h"
#endif

#if PLINTH_VALUE_FORMATS != 0x04170417 || (PLINTH_VALUE_MACHINE >> 16 & 0xff) != PLINTH_MACHINE_SYSTOLIC
#error "this is no systolic die of FP32: numbers here are FP32, and its products GEMM tasks"
#endif

enum { SIZE = 4, A = 0x000, B = 0x100, C = 0x200, TASK = 0x400, MEMORY_WORDS = 0x1000 };

static uint32_t fp32(float value)
{
    union {
        float value;
        uint32_t bits;
    } both = {value};
    return both.bits;
}

/* C = A B, with rows one behind the other; 0, or the die's error code, or -1 for another die. */
static int gemm(uint32_t m, uint32_t n, uint32_t k, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t task[PLINTH_DESCRIPTOR_WORDS] = {0};

    if (register_read(PLINTH_REG_ID) != PLINTH_VALUE_ID || register_read(PLINTH_REG_VERSION) != PLINTH_VALUE_VERSION ||
        register_read(PLINTH_REG_PARAMETERS_DIGEST) != PLINTH_VALUE_PARAMETERS_DIGEST)
        return -1;
    plinth_put(task, PLINTH_FIELD_TASK_ENGINE, PLINTH_ENGINE_MATRIX);
    plinth_put(task, PLINTH_FIELD_TASK_OPERATION, PLINTH_MATRIX_OPERATION_GEMM);
    plinth_put(task, PLINTH_FIELD_TASK_LAST, 1);
    plinth_put(task, PLINTH_FIELD_MATRIX_A, PLINTH_POINTER(0, a));
    plinth_put(task, PLINTH_FIELD_MATRIX_A_STRIDE, k);
    plinth_put(task, PLINTH_FIELD_MATRIX_B, PLINTH_POINTER(0, b));
    plinth_put(task, PLINTH_FIELD_MATRIX_B_STRIDE, n);
    plinth_put(task, PLINTH_FIELD_MATRIX_C, PLINTH_POINTER(0, c));
    plinth_put(task, PLINTH_FIELD_MATRIX_C_STRIDE, n);
    plinth_put(task, PLINTH_FIELD_MATRIX_M, m);
    plinth_put(task, PLINTH_FIELD_MATRIX_N, n);
    plinth_put(task, PLINTH_FIELD_MATRIX_K, k);
    for (uint32_t word = 0; word < PLINTH_DESCRIPTOR_WORDS; word++)
        memory_write(TASK + word, task[word]);

    register_write(PLINTH_REG_DIE, 0);
    register_write(PLINTH_REG_DIES, 1);
    register_write(PLINTH_REG_MEMORY_WORDS, MEMORY_WORDS);
    register_write(PLINTH_REG_BASES(0), 0);
    register_write(PLINTH_REG_TASK_BASE, TASK);
    memory_barrier();
    register_write(PLINTH_REG_CONTROL, PLINTH_CONTROL_START);
    while (!(register_read(PLINTH_REG_STATUS) & (PLINTH_STATUS_DONE | PLINTH_STATUS_ERROR)))
        ;
    memory_barrier();
    return (int)register_read(PLINTH_REG_ERROR_CODE);
}

/* 0 if every element is what the processor makes of it; else the error of gemm(), or 1000 and the number of others. */
int main(void)
{
    int wrong = 0, error;

    for (uint32_t row = 0; row < SIZE; row++)
        for (uint32_t column = 0; column < SIZE; column++) {
            memory_write(A + SIZE * row + column, fp32((float)(SIZE * row + column + 1)));
            memory_write(B + SIZE * row + column, fp32((float)row - (float)column));
        }
    error = gemm(SIZE, SIZE, SIZE, A, B, C);
    if (error)
        return error;
    for (uint32_t row = 0; row < SIZE; row++)
        for (uint32_t column = 0; column < SIZE; column++) {
            float sum = 0;
            for (uint32_t term = 0; term < SIZE; term++)
                sum += (float)(SIZE * row + term + 1) * ((float)term - (float)column);
            wrong += memory_read(C + SIZE * row + column) != fp32(sum);
        }
    return wrong ? 1000 + wrong : 0;
}
